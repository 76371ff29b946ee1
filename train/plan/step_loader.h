// The batches of one rank, step after step: the training plan, cut into this rank's passes.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "shared/data/loader.h"
#include "train/plan/plan_options.h"
#include "train/plan/training_set.h"

namespace retina {

struct StepLoaderInput {
  const TrainingSet& train;  // outlives the loader
  EpochPlanOptions plan = {};
  int micro_batch = 0;  // 0: all of the rank's images of a step in one pass
  DecodeThreads threads = {};
  PixelForm form = PixelForm::kNormalised;
  BatchAllocator allocate = allocate_plain;
  int rank = 0, rank_count = 1;
  std::int64_t begin = 0, end = 0;      // steps, counted from 0
  std::set<std::int64_t> skipped = {};  // steps not to load
};

std::unique_ptr<BatchLoader> load_steps(const StepLoaderInput& input);

// The shards that the rank reads in the rest of this pass over the data and in the whole next one,
// in the order of their first use; those that only pad slots read are left out.
std::vector<std::size_t> shards_ahead(const StepLoaderInput& input);

}  // namespace retina
