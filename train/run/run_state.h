// The state of a run: all that a checkpoint holds of it besides tensors, options and classes; the
// part `trainer` of shared/checkpoint/FORMAT.md. Its keys are part of the format; never rename.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "train/schedule/adaptive_schedule.h"

namespace retina {

// Facts that are the same at every step of a run.
struct RunFacts {
  std::string train_fingerprint = {};       // TrainingSet::fingerprint
  std::string validation_fingerprint = {};  // the APs' validation set; "": there was none
  // Not read back, except total_steps. Evaluation reads tile_px (Saving); the rest is for people.
  std::uint64_t seed = 0;
  std::int64_t images_per_step = 0, steps_per_epoch = 0;
  std::int64_t total_steps = 0;  // as planned when this was saved
  double base_lr = 0, effective_lr = 0;
  std::string lr_schedule = {};
  int tile_px = 0;  // side of the tiles that are trained on; 0: whole images, or several sides
};

struct RunState {
  std::int64_t step = 0;   // steps made or skipped
  std::int64_t epoch = 0;  // the one that `step` ends, or is in
  std::int64_t samples_seen = 0;
  bool epoch_closed = true;                   // false from its last step to the end of validation
  std::set<std::int64_t> skipped_steps = {};  // counted from 0; by --on-nan rollback
  AdaptiveScheduleState adaptive_schedule = {};
  // Metric of the validation after this step: AP, or a classifier's top-1 accuracy.
  std::optional<double> ap = {};
  double learning_rate = 0;  // rate of the next step; for people, not read back
  RunFacts facts = {};

  std::string to_json() const;
  // Parses the state. Throws Error{kData}; `name` is the checkpoint's.
  static RunState parse(const std::string& json, const std::string& name);
};

}  // namespace retina
