// The proof of a detector that gives every anchor's box and scores, and suppresses nothing.
#pragma once

#include <cstdint>
#include <string>

#include "convert/verification/detector_verification.h"

namespace retina {

struct AnchorMatch {
  std::int64_t anchor_count = 0;
  double largest_box_px = 0;  // over all anchors and sides; per 100 px of boxes longer than that
  double largest_score = 0;
};

// Runs both on every image and compares all anchors. Throws Error{kAnswerNo} where their numbers of
// anchors differ; what is not finite differs from everything.
AnchorMatch compare_anchors(ConvertedModel converted, RetinaNet& model,
                            const VerificationInputs& inputs);

// Throws Error{kAnswerNo} beyond kBoxTolerancePx or kScoreTolerance.
void require_equal(const AnchorMatch& result, const std::string& output);
// For rounded weights: throws Error{kAnswerNo} when a score is off by more than a half.
void require_alike(const AnchorMatch& result, const std::string& output);

}  // namespace retina
