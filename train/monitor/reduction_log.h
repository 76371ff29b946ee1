// What a user learns about how gradients travel, and what the run's folder keeps of it.
#pragma once

#include <cstdint>

#include "train/reduce/gradient_buckets.h"
#include "train/run/run_dir.h"

namespace retina {

// Used on rank 0.
class ReductionLog {
 public:
  // Before the first step: one line, and the choice of buckets into `run_dir` (null: nowhere).
  static void begin(const GradientBuckets& buckets, RunDir* run_dir);

  // After update number `step`: each piece of news once.
  void add(std::int64_t step, const GradientBuckets& buckets);

 private:
  bool first_told_ = false, repeated_told_ = false;
};

}  // namespace retina
