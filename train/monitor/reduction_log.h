// Reports how gradients travel, to the user and in the run's folder.
#pragma once

#include <cstdint>

#include "train/reduce/gradient_buckets.h"
#include "train/run/run_dir.h"

namespace retina {

// Used on rank 0.
class ReductionLog {
 public:
  // Logs one line before the first step and writes the choice of buckets to `run_dir` (null:
  // nowhere).
  static void begin(const GradientBuckets& buckets, RunDir* run_dir);

  // Logs the events of update number `step`, each kind once.
  void add(std::int64_t step, const GradientBuckets& buckets);

 private:
  bool first_told_ = false, repeated_told_ = false;
};

}  // namespace retina
