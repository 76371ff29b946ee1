// The epoch plan: the images of each global step, and the images of it that a rank loads. A pure
// function of (seed, epoch, image index, images per step): the number of ranks decides only which
// rank loads an image, never the content of a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shared/data/batch.h"
#include "shared/shard/shard_set.h"
#include "train/plan/sampler.h"

namespace retina {

// One global step. All its images share one padded shape, the maximum over them.
struct GlobalStep {
  std::int64_t number = 0;  // counted over the whole run; in an EpochPlan's step, within the epoch
  std::vector<Slot> slots = {};  // images_per_step slots; ranks own contiguous parts
  int real_image_count = 0;      // slots that count; fewer than slots.size() in an epoch's tail
  FrameRule frame = {};
  ImageSize padded = {};  // px
};

// The plan of one epoch of the data. Properties:
//  1. every image is in as many counting slots as the sampler drew it: uniform, in exactly one;
//  2. step contents do not depend on the number of ranks;
//  3. all ranks take ceil(drawn images / images_per_step) steps; the tail is filled with pad slots
//     that repeat the epoch's first images and count nothing;
//  4. images of like aspect ratio share a step as far as that goes (less padding) without breaking
//     1-3: each lane, or the whole epoch with kGlobal, is cut into buckets by the rank of its
//     images' aspect ratio, and a step takes all its images from one bucket;
//  5. kSharded: a counting slot s reads lane s of what was drawn, in the tail too. Only a pad slot
//     of a lane that is empty (fewer images than slots) reads another lane's image.
class EpochPlan {
 public:
  // `index` must outlive the plan.
  EpochPlan(const ImageIndex& index, const EpochPlanOptions& options, std::int64_t epoch);

  std::int64_t step_count() const;

  // Returns a step. `step` counts from 0 within the epoch.
  GlobalStep step(std::int64_t step) const;
  // Returns only the padded shape of a step.
  ImageSize padded(std::int64_t step) const;

 private:
  void order_globally(const std::vector<Draw>& draws);
  void order_by_lanes(const std::vector<Draw>& draws);
  void group_by_aspect();
  // Brings `count` places, `stride` apart from `first` on, into buckets of equal size, from tall to
  // wide; inside a bucket their order stays.
  void bucket_by_aspect(std::size_t first, std::size_t count, std::size_t stride,
                        std::size_t bucket_count);
  // Returns the first place of the step's slots, which are next to each other.
  std::size_t first_place(std::int64_t step) const;
  // Returns whether the slot at `place` is not a pad slot.
  bool counts(std::size_t place) const;
  FrameRule frame_of(std::int64_t step) const;
  std::size_t slot_count() const { return static_cast<std::size_t>(options_.images_per_step); }
  const ImageIndex& index_;
  EpochPlanOptions options_;
  std::int64_t epoch_;
  std::size_t draw_count_ = 0;
  std::vector<Draw> places_{};               // [steps][slots]
  std::vector<std::uint32_t> step_order_{};  // order of full steps in places_; empty: as they are
};

// The places [begin, end).
struct RecordRange {
  std::size_t begin = 0, end = 0;
};

// Returns the records of lane `lane` of `lane_count`, a contiguous part in shard order.
RecordRange lane_records(std::size_t record_count, std::size_t lane, std::size_t lane_count);

// Returns the steps of one epoch of the data: ceil(image_count / images_per_step).
std::int64_t steps_per_data_epoch(std::size_t image_count, int images_per_step);

// Returns the largest number of a step's slots that one of `rank_count` ranks gets; where the ranks
// do not divide the slots evenly, some ranks get one less.
std::size_t largest_share(std::size_t slot_count, std::size_t rank_count);

// Returns the part of a step that `rank` loads, in micro-batches of at most `micro_batch` images
// (gradient accumulation; 0: all at once). Every rank gets the same number of them; where the ranks
// do not divide the slots evenly, a rank's may be one image smaller than another rank's, or empty.
// `rank_count` is at most the number of slots.
std::vector<BatchRequest> rank_micro_batches(const GlobalStep& step, int rank, int rank_count,
                                             int micro_batch);

}  // namespace retina
