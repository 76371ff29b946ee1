#include "convert/verification/verification.h"

#include <algorithm>

#include "shared/base/error.h"
#include "shared/comm/communicator.h"
#include "shared/data/sample_source.h"
#include "shared/evaluation/predict/classify.h"
#include "shared/evaluation/score/classification.h"
#include "shared/evaluation/score/ground_truth.h"
#include "shared/evaluation/score/metrics.h"

namespace retina {
namespace {

void check_classes(const Categories& model, const Categories& data, const std::string& folder) {
  const bool same =
      std::equal(model.begin(), model.end(), data.begin(), data.end(),
                 [](const Category& one, const Category& other) { return one.name == other.name; });
  if (same) return;
  throw Error(ErrorKind::kConfig, cat(folder, ": its classes are not the model's"),
              "give --data shards that were packed with the training set's categories");
}

}  // namespace

bool can_be_scored(const InferenceHeader& header) {
  return header.form.postprocess && !header.form.image;
}

Accuracy accuracy_on(ConvertedModel model, const ShardSet& shards, int image_count) {
  check_classes(model.header().categories, shards.manifest().categories, shards.folder());
  const auto alone = make_self_communicator();
  const DetectOptions options{.max_images = image_count};
  if (model.header().task == Task::kClassification) {
    const std::vector<ClassOutcome> outcomes = classify(model, shards, *alone, options);
    const ClassificationMetrics metrics =
        classification_metrics(outcomes, shards.manifest().categories);
    return {.name = "top-1 accuracy",
            .metric = metrics.top1.value().value_or(0),
            .image_count = static_cast<std::int64_t>(outcomes.size())};
  }
  const std::vector<Detection> detections =
      detect(model, {ShardSource(shards), shards.manifest().categories, *alone}, options);
  Instances truth = ground_truth_of(shards);
  keep_first_images(truth, image_count);
  const CocoMetrics metrics = evaluate_detections(truth, detections);
  return {.name = "AP", .metric = metrics.stats[kAp], .image_count = metrics.image_count};
}

}  // namespace retina
