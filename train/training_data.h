// The data of a training job: the sets that --train names, as one, and the validation set.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/shard/shard_set.h"
#include "train/options.h"
#include "train/plan/training_plan.h"

namespace retina {

// The images that a rank works on, and the plan of the run's steps over them.
//
// Several sets are trained on as one that has the records of the first, then those of the second,
// and so on, with the classes of the first: the bits of the weights are the same. Steps and
// augmentation depend on the records' order, sizes and classes alone, not on image ids, names or
// shards.
struct TrainingData {
  // Throws kNoInput, kData, kConfig: sets that cannot be read or do not fit the task or each other.
  explicit TrainingData(const TrainOptions& options);
  TrainingData(const TrainingData&) = delete;
  TrainingData& operator=(const TrainingData&) = delete;

  std::vector<ShardSet> train_shards;  // as --train has them; none with --synthetic
  std::optional<ShardSet> validation;  // where given
  std::string validation_fingerprint;  // validation_identity(); empty: none
  std::unique_ptr<SampleSource> source;
  std::optional<TrainingSet> train;  // always
  std::optional<TrainingPlan> plan;

  // `plan`, once the data have decided what they decide of the options (run_defaults.h).
  void make_plan(const TrainOptions& options);
};

}  // namespace retina
