#include <algorithm>

#include "convert/verification/verification.h"
#include "shared/base/error.h"
#include "shared/comm/communicator.h"
#include "shared/data/sample_source.h"
#include "shared/evaluation/predict/classify.h"
#include "shared/evaluation/score/classification.h"
#include "shared/evaluation/score/ground_truth.h"
#include "shared/evaluation/score/metrics.h"

namespace retina {

Accuracy accuracy_on(ConvertedModel model, const ShardSet& shards, int image_count) {
  const Categories& own = model.header().categories;
  const Categories& categories = shards.manifest().categories;
  if (!std::equal(own.begin(), own.end(), categories.begin(), categories.end(),
                  [](const Category& a, const Category& b) { return a.name == b.name; })) {
    throw Error(ErrorKind::kConfig, cat(shards.folder(), ": its classes are not the model's"),
                "give --data shards that were packed with the training set's categories");
  }
  const auto alone = make_self_communicator();
  const DetectOptions options{.max_images = image_count};
  if (model.header().task == Task::kClassification) {
    const std::vector<ClassOutcome> outcomes = classify(model, shards, *alone, options);
    return {.name = "top-1 accuracy",
            .metric = classification_metrics(outcomes, categories).top1.value().value_or(0),
            .image_count = static_cast<std::int64_t>(outcomes.size())};
  }
  const std::vector<Detection> detections =
      detect(model, {ShardSource(shards), categories, *alone}, options);
  Instances truth = ground_truth_of(shards);
  keep_first_images(truth, image_count);
  const CocoMetrics metrics = evaluate_detections(truth, detections);
  return {.name = "AP", .metric = metrics.stats[kAp], .image_count = metrics.image_count};
}

}  // namespace retina
