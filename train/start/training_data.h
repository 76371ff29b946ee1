// Holds the data of a training job: the sets that --train names, joined to one, and the validation
// set.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/shard/shard_set.h"
#include "train/plan/training_plan.h"
#include "train/start/options.h"

namespace retina {

// The images that a rank works on, and the plan of the run's steps over them.
//
// Several sets are trained on as if they were one, bit for bit: the records of the first, then
// those of the second, and so on, with the classes of the first. Steps and augmentation depend only
// on the records' order, sizes and classes, not on image ids, names or shards.
struct TrainingData {
  // Opens the sets. Throws kNoInput, kData, kConfig: sets that cannot be read or do not fit the
  // task or each other.
  explicit TrainingData(const TrainOptions& options);
  TrainingData(const TrainingData&) = delete;
  TrainingData& operator=(const TrainingData&) = delete;

  std::vector<ShardSet> train_shards;    // in the order of --train; none with --synthetic
  std::optional<ShardSet> validation;    // unset without --validation
  std::string validation_fingerprint;    // validation_identity(); empty without a validation set
  std::unique_ptr<SampleSource> source;  // samples of all train_shards, or of --synthetic
  std::optional<TrainingSet> train;      // always set
  std::optional<TrainingPlan> plan;      // unset before make_plan()

  // Makes `plan`, after the data have decided their options (run_defaults.h).
  void make_plan(const TrainOptions& options);

  // Returns the number of images of a validation.
  std::int64_t validated_images(const TrainOptions& options) const;
};

}  // namespace retina
