// Loads the batches of one rank, step after step: the training plan, cut into this rank's
// micro-batches.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "shared/data/loader.h"
#include "train/plan/training_plan.h"

namespace retina {

struct StepLoaderInput {
  const SampleSource& source;  // must outlive the loader, as must the plan's index
  TrainingPlan plan;
  int micro_batch = 0;  // images; 0: all of the rank's images of a step at once
  DecodeThreads threads = {};
  PixelForm form = PixelForm::kNormalised;
  BatchAllocator allocate = allocate_plain;
  int rank = 0, rank_count = 1;
  std::int64_t begin = 0, end = 0;      // steps, counted from 0
  std::set<std::int64_t> skipped = {};  // steps not to load
};

std::unique_ptr<BatchLoader> load_steps(const StepLoaderInput& input);

// Returns the shards of one set that the rank reads in the rest of this epoch of the data and in
// the whole next one, in the order of their first use, without those that only pad slots read. The
// set's records are those of `set` in the plan's index.
std::vector<std::size_t> shards_ahead(const StepLoaderInput& input, const RecordRange& set);

}  // namespace retina
