// The epoch plan: which images make up which global step, and which of them a rank loads. A pure
// function of (seed, epoch, image index, images per step): the number of ranks decides only who
// loads what, never what a step contains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shared/data/batch.h"
#include "shared/shard/shard_set.h"

namespace retina {

struct EpochPlanOptions {
  std::uint64_t seed = 0;
  int images_per_step = 16;  // the global step: all ranks, all accumulation passes
  int min_side_px = 800, max_side_px = 1333;
  double flip_probability = 0.5;
};

// One global step. All its images share one padded shape, the maximum over them.
struct GlobalStep {
  std::vector<Slot> slots = {};  // images_per_step of them; ranks own contiguous, equal parts
  int real_image_count = 0;      // slots that count; fewer than slots.size() in an epoch's tail
  int padded_width_px = 0, padded_height_px = 0;
};

// The plan of one epoch with `--shuffle global`: one permutation over everything. Properties:
//  1. every image is in exactly one counting slot;
//  2. step contents do not depend on the number of ranks;
//  3. all ranks take ceil(images / images_per_step) steps; the tail is filled with pad slots that
//     repeat the epoch's first images and count nothing;
//  4. images of like aspect ratio share a step where that is possible within a window of steps
//     (less padding), without breaking 1-3.
class EpochPlan {
 public:
  // `index` must outlive the plan.
  EpochPlan(const std::vector<IndexEntry>& index, const EpochPlanOptions& options,
            std::int64_t epoch);

  std::int64_t step_count() const;

  // `step` counts from 0 within the epoch.
  GlobalStep step(std::int64_t step) const;

 private:
  void group_by_aspect();
  const std::vector<IndexEntry>& index_;
  EpochPlanOptions options_;
  std::int64_t epoch_;
  std::vector<std::uint32_t> order_;  // places in index_, each once
};

// Steps of an epoch: ceil(image_count / images_per_step).
std::int64_t steps_per_epoch(std::size_t image_count, int images_per_step);

// The part of a step that `rank` loads, in passes of at most `images_per_pass` images (gradient
// accumulation; 0 means one pass). Every rank gets the same number of passes of the same sizes.
// `rank_count` must divide the step's slots.
std::vector<BatchRequest> rank_passes(const GlobalStep& step, int rank, int rank_count,
                                      int images_per_pass);

}  // namespace retina
