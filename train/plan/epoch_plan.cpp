#include "train/plan/epoch_plan.h"

#include <algorithm>
#include <utility>

#include "shared/base/error.h"
#include "shared/image/resize.h"
#include "shared/numeric/random.h"

namespace retina {
namespace {

// Steps that a bucket fills: enough that its images meet in other combinations each epoch. With 8,
// batch norm of 4 images learned less than without buckets: tests/bench/train/outcome.py.
constexpr std::size_t kBucketSteps = 32;
// Keeps the draws for different purposes of one epoch apart.
constexpr std::uint64_t kStepSeedOffset = 0x9E3779B97F4A7C15;
constexpr std::uint64_t kLaneSeedOffset = 0xD1B54A32D192ED03;
constexpr std::uint64_t kScaleSeedOffset = 0x8CB92BA72F3D8DD7;

}  // namespace

std::int64_t steps_per_data_epoch(std::size_t image_count, int images_per_step) {
  const auto per_step = static_cast<std::size_t>(images_per_step);
  return static_cast<std::int64_t>((image_count + per_step - 1) / per_step);
}

RecordRange lane_records(std::size_t record_count, std::size_t lane, std::size_t lane_count) {
  return {.begin = record_count * lane / lane_count, .end = record_count * (lane + 1) / lane_count};
}

std::size_t largest_share(std::size_t slot_count, std::size_t rank_count) {
  return (slot_count + rank_count - 1) / rank_count;
}

EpochPlan::EpochPlan(const ImageIndex& index, const EpochPlanOptions& options, std::int64_t epoch)
    : index_(index), options_(options), epoch_(epoch) {
  RETINA_CHECK(options.images_per_step > 0 && !index.empty());
  {
    const std::vector<Draw> draws = draw_images(index, options, epoch);
    draw_count_ = draws.size();
    places_.resize(static_cast<std::size_t>(step_count()) * slot_count());
    if (options.shuffle == Shuffle::kGlobal) {
      order_globally(draws);
    } else {
      order_by_lanes(draws);
    }
  }
  group_by_aspect();
  if (options.shuffle != Shuffle::kGlobal) return;
  for (std::size_t i = draw_count_; i < places_.size(); ++i) {
    places_[i] = places_[first_place(0) + i % draw_count_];
  }
}

void EpochPlan::order_globally(const std::vector<Draw>& draws) {
  const auto order = permutation(draws.size(), {.seed = options_.seed,
                                                .use = RandomUse::kShuffle,
                                                .stream = static_cast<std::uint32_t>(epoch_)});
  for (std::size_t i = 0; i < order.size(); ++i) places_[i] = draws[order[i]];
}

void EpochPlan::order_by_lanes(const std::vector<Draw>& draws) {
  const std::size_t lanes = slot_count(), steps = places_.size() / lanes;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const auto [begin, end] = lane_records(draws.size(), lane, lanes);
    const std::size_t count = end - begin;
    const auto order = permutation(count, {.seed = options_.seed ^ (kLaneSeedOffset * (lane + 1)),
                                           .use = RandomUse::kShuffle,
                                           .stream = static_cast<std::uint32_t>(epoch_)});
    for (std::size_t step = 0; step < steps; ++step) {
      // A lane without images borrows the first image that another lane must have at this place.
      const std::size_t place =
          count > 0 ? begin + order[step % count] : lane * draws.size() / lanes;
      places_[step * lanes + lane] = draws[place];
    }
  }
}

void EpochPlan::bucket_by_aspect(std::size_t first, std::size_t count, std::size_t stride,
                                 std::size_t bucket_count) {
  std::vector<Draw> places;
  std::vector<std::pair<double, std::size_t>> by_aspect;
  for (std::size_t i = 0; i < count; ++i) {
    places.push_back(places_[first + i * stride]);
    const IndexEntry image = index_[places.back().record];
    by_aspect.emplace_back(static_cast<double>(image.width) / image.height, i);
  }
  std::sort(by_aspect.begin(), by_aspect.end());
  for (std::size_t bucket = 0; bucket < bucket_count; ++bucket) {
    const auto [begin, end] = lane_records(count, bucket, bucket_count);
    const auto of_rank = by_aspect.begin() + static_cast<std::ptrdiff_t>(begin);
    // Restores the random order inside the bucket.
    std::sort(of_rank, of_rank + static_cast<std::ptrdiff_t>(end - begin),
              [](const auto& a, const auto& b) { return a.second < b.second; });
    for (std::size_t i = begin; i < end; ++i) {
      places_[first + i * stride] = places[by_aspect[i].second];
    }
  }
}

void EpochPlan::group_by_aspect() {
  if (options_.frame.framing == Framing::kSquare) return;  // nothing is padded
  const std::size_t slots = slot_count();
  const std::size_t full_steps = draw_count_ / slots;  // the tail stays the tail
  const std::size_t buckets = std::max<std::size_t>(1, full_steps / kBucketSteps);
  if (options_.shuffle == Shuffle::kGlobal) {
    bucket_by_aspect(0, full_steps * slots, 1, buckets);
  } else {
    for (std::size_t lane = 0; lane < slots; ++lane) {
      bucket_by_aspect(lane, full_steps, slots, buckets);
    }
  }
  // The steps return to random order, or every epoch would run from tall to wide.
  step_order_ = permutation(full_steps, {.seed = options_.seed ^ kStepSeedOffset,
                                         .use = RandomUse::kShuffle,
                                         .stream = static_cast<std::uint32_t>(epoch_)});
}

std::size_t EpochPlan::first_place(std::int64_t step) const {
  const auto number = static_cast<std::size_t>(step);
  return (number < step_order_.size() ? step_order_[number] : number) * slot_count();
}

bool EpochPlan::counts(std::size_t place) const {
  if (options_.shuffle == Shuffle::kGlobal) return place < draw_count_;
  const auto [begin, end] = lane_records(draw_count_, place % slot_count(), slot_count());
  return place / slot_count() < end - begin;
}

std::int64_t EpochPlan::step_count() const {
  return steps_per_data_epoch(draw_count_, options_.images_per_step);
}

FrameRule EpochPlan::frame_of(std::int64_t step) const {
  RETINA_CHECK(step >= 0 && step < step_count());
  FrameRule rule = options_.frame;
  if (!options_.min_sides_px.empty()) {
    const RandomStream random{.seed = options_.seed ^ kScaleSeedOffset,
                              .use = RandomUse::kAugment,
                              .stream = static_cast<std::uint32_t>(epoch_)};
    rule.min_side_px = options_.min_sides_px[random.below(static_cast<std::uint64_t>(step),
                                                          options_.min_sides_px.size())];
  }
  return rule;
}

ImageSize EpochPlan::padded(std::int64_t step) const {
  const FrameRule rule = frame_of(step);
  ImageSize largest;
  const std::size_t first = first_place(step);
  for (std::size_t i = first; i < first + slot_count(); ++i) {
    const IndexEntry image = index_[places_[i].record];
    const ImageSize size = padded_size({image.width, image.height}, rule);
    largest.width = std::max(largest.width, size.width);
    largest.height = std::max(largest.height, size.height);
  }
  return largest;
}

GlobalStep EpochPlan::step(std::int64_t step) const {
  const FrameRule rule = frame_of(step);
  GlobalStep result{.frame = rule, .padded = padded(step)};
  const std::size_t first = first_place(step);
  for (std::size_t i = first; i < first + slot_count(); ++i) {
    const auto [record, copy] = places_[i];
    const IndexEntry image = index_[record];
    // Copies of an image are augmented independently.
    const Augmentation augmentation = draw_augmentation(
        options_.augment,
        {.seed = options_.seed, .epoch = epoch_, .draw = record + (std::uint64_t{copy} << 32)},
        {.width = image.width, .height = image.height}, rule);
    result.slots.push_back({.record = record,
                            .flip = augmentation.flip,
                            .counts = counts(i),
                            .warp = augmentation.warp,
                            .box_visibility = options_.augment.box_visibility});
    result.real_image_count += counts(i) ? 1 : 0;
  }
  return result;
}

std::vector<BatchRequest> rank_micro_batches(const GlobalStep& step, int rank, int rank_count,
                                             int micro_batch) {
  const std::size_t slots = step.slots.size(), ranks = static_cast<std::size_t>(rank_count);
  RETINA_CHECK(ranks <= slots);
  // Cut as the records are into lanes: shares differ by one slot at most.
  const auto [begin, end] = lane_records(slots, static_cast<std::size_t>(rank), ranks);
  const std::size_t largest = largest_share(slots, ranks);
  const std::size_t most_images =
      micro_batch > 0 ? std::min(largest, static_cast<std::size_t>(micro_batch)) : largest;
  const std::size_t micro_batch_count = (largest + most_images - 1) / most_images;
  std::vector<BatchRequest> micro_batches;
  for (std::size_t place = 0; place < micro_batch_count; ++place) {
    const auto [first, last] = lane_records(end - begin, place, micro_batch_count);
    micro_batches.push_back(
        {.slots = {step.slots.begin() + static_cast<std::ptrdiff_t>(begin + first),
                   step.slots.begin() + static_cast<std::ptrdiff_t>(begin + last)},
         .frame = step.frame,
         .padded = step.padded,
         .part = {.step = step.number,
                  .real_image_count = step.real_image_count,
                  .is_last_micro_batch = place + 1 == micro_batch_count,
                  .first_slot = static_cast<std::int64_t>(begin + first)}});
  }
  return micro_batches;
}

}  // namespace retina
