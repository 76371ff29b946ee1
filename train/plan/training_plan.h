// The order of training: the run's steps one after the other, over the borders of epochs. Built
// once in a program; all code that counts or loads steps uses that one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shared/data/sample_source.h"
#include "shared/shard/manifest.h"
#include "train/plan/epoch_plan.h"

namespace retina {

// The training data as the trainer sees them: samples, classes and an identity.
struct TrainingSet {
  const SampleSource& source;
  Categories categories = {};
  std::int64_t ignored_boxes = 0;  // boxes without an area to train on, as the packer counted them
  // Hash of the manifest; for several sets theirs, joined in order. A run continues only with the
  // same data.
  std::string fingerprint = {};

  int class_count() const { return static_cast<int>(categories.size()); }
};

// A copy is cheap: it shares the order of the epoch that was last asked for.
class TrainingPlan {
 public:
  // `index` must outlive the plan and its copies. An epoch has every image once, or with
  // `epoch_steps` > 0 that many steps, wherever the data end (keras-retinanet's --steps).
  TrainingPlan(const ImageIndex& index, const EpochPlanOptions& options,
               std::int64_t epoch_steps = 0);

  const ImageIndex& index() const { return index_; }
  const EpochPlanOptions& options() const { return options_; }
  std::int64_t steps_per_data_epoch() const { return steps_per_data_epoch_; }
  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
  // Returns the epoch of a step. `step` counts from 0 over the whole run.
  std::int64_t epoch_of(std::int64_t step) const { return step / steps_per_epoch_; }
  // Returns a step and keeps the order of its epoch for the next call: each thread needs a copy of
  // its own.
  GlobalStep at(std::int64_t step);
  // Returns the padded shape with the most pixels among the steps [begin, end).
  ImageSize largest_padded(std::int64_t begin, std::int64_t end);

 private:
  const EpochPlan& epoch_plan_of(std::int64_t step);

  const ImageIndex& index_;
  EpochPlanOptions options_;
  std::int64_t steps_per_data_epoch_, steps_per_epoch_;
  std::shared_ptr<const EpochPlan> epoch_plan_;  // plan of the data epoch `epoch_`
  std::int64_t epoch_ = -1;
};

}  // namespace retina
