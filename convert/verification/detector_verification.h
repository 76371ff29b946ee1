// The proof at the end of a detector's conversion: the written file is opened again and compared
// with the training model, image by image.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

#include "convert/verification/detection_match.h"
#include "shared/evaluation/predict/converted_model.h"
#include "shared/image/image.h"
#include "shared/model/postprocess.h"
#include "shared/model/retinanet.h"

namespace retina {

struct VerificationInputs {
  const std::vector<Image>& images;
  PostprocessOptions postprocess{};  // as built into the file
  c10::Device device = c10::kCPU;
};

// Runs both models on every image, one at a time, and compares their detections. Where the score
// threshold would leave an image fewer than 100 candidates, it is lowered for that image, in both:
// a proof on no detections would prove nothing. `model` is moved to the device and put into
// evaluation mode.
MatchResult compare_models(ConvertedModel converted, RetinaNet& model,
                           const VerificationInputs& inputs);

// Throws Error{kAnswerNo} when the result is beyond tolerance: a pair differs by more than
// kBoxTolerancePx or kScoreTolerance, a detection is unexplained, nothing was compared, or more
// than a quarter lies on a threshold (an untrained model's scores lie so close together that
// rounding decides a few percent of its ranks).
void require_equal(const MatchResult& result, const std::string& output);

// For rounded weights: throws Error{kAnswerNo} when fewer than half of the detections have a
// partner, or nothing was compared.
void require_alike(const MatchResult& result, const std::string& output);

}  // namespace retina
