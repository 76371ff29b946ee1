// Verifies the result of a conversion: the written file is opened again and compared with the
// training model, image by image.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "convert/verification/detection_match.h"
#include "shared/evaluation/predict/converted_model.h"
#include "shared/image/image.h"
#include "shared/model/classifier.h"
#include "shared/model/postprocess.h"
#include "shared/model/retinanet.h"
#include "shared/shard/shard_set.h"

namespace retina {

struct ClassScoreRow {
  std::vector<float> logits{}, probabilities{};  // [K] each
};

// Largest difference of probabilities, and of logits as a share of max(1, largest |logit| of
// `want`). Logits are checked, too, because saturated probabilities hide differences.
inline constexpr double kProbabilityTolerance = 1e-5;
inline constexpr double kLogitTolerance = 1e-4;

// Differences of two classifiers' scores.
struct ScoreMatch {
  std::int64_t image_count = 0;
  std::int64_t same_best_count = 0;  // images whose best class is the same
  double largest_probability = 0;    // difference, over all images and classes
  double largest_logit = 0;          // the same for logits, on that scale
  std::int64_t unequal_count = 0;    // images with a difference beyond a tolerance
  std::string first_unequal{};       // description

  // Adds one more image, with the same K >= 1 classes in all four vectors. The best classes may
  // differ where `want` gives both the same probability within the tolerance. A number that is not
  // finite equals nothing.
  void add(const ClassScoreRow& want, const ClassScoreRow& got);
};

struct VerificationInputs {
  const std::vector<Image>& images;
  PostprocessOptions postprocess{};  // as built into a detector's file
  c10::Device device = c10::kCPU;    // the training model's
};

// These functions run both models on every image, one at a time; the training model gets the image
// as the loader prepares it for an evaluation. `model` is moved to the device and put into
// evaluation mode.

// Compares detections. The score threshold is lowered, in both models, for an image of which it
// would leave fewer than 100 candidates: no detections would verify nothing.
MatchResult compare_models(ConvertedModel converted, RetinaNet& model,
                           const VerificationInputs& inputs);
// Compares every anchor's box and score of a detector that suppresses nothing: all are pairs.
// Throws Error{kAnswerNo} where the numbers of anchors differ; a value that is not finite differs
// from everything.
MatchResult compare_anchors(ConvertedModel converted, RetinaNet& model,
                            const VerificationInputs& inputs);
// Compares a classifier's scores.
ScoreMatch compare_models(ConvertedModel converted, Classifier& model,
                          const VerificationInputs& inputs);

// Throws Error{kAnswerNo} about the model that was to be `output`.
[[noreturn]] void fail_verification(
    const std::string& output, const std::string& problem,
    const std::string& hint =
        "the checkpoint's weights may be extreme; please report it with the checkpoint");

// Throw Error{kAnswerNo} about the model that was to be `output` when the result is beyond
// tolerance, or nothing was compared. For a detector: when a pair differs by more than
// kBoxTolerancePx or kScoreTolerance, a detection is unexplained, or more than a quarter lie on a
// threshold (an untrained model's scores lie so close together that rounding decides a few percent
// of its ranks).
void require_equal(const MatchResult& result, const std::string& output);
void require_equal(const ScoreMatch& result, const std::string& output);

// Throw the same for rounded weights: when fewer than half of the detections have a partner, when
// an anchor's score is off by more than a half, when more than a tenth of the images have another
// best class.
void require_alike(const MatchResult& result, const std::string& output);
void require_alike_anchors(const MatchResult& result, const std::string& output);
void require_alike(const ScoreMatch& result, const std::string& output);

// The metric of a converted model on labelled images, which shows the cost of rounding to 8 bits.
struct Accuracy {
  const char* name = "";  // "AP" of a detector, "top-1 accuracy" of a classifier
  double metric = 0;
  std::int64_t image_count = 0;
};

// Measures a model on the `image_count` images of lowest id. Throws kConfig when the set has other
// classes; also throws as detect and classify do.
Accuracy accuracy_on(ConvertedModel model, const ShardSet& shards, int image_count);

}  // namespace retina
