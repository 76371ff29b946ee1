#include "train/plan/epoch_plan.h"

#include <algorithm>

#include "shared/base/error.h"
#include "shared/base/random.h"
#include "shared/image/resize.h"
#include "train/augment/flip.h"

namespace retina {
namespace {

// Steps whose images may be exchanged to bring like shapes together.
constexpr std::size_t kAspectWindowSteps = 16;
// Keeps the draws that order a window's steps apart from those of the permutation.
constexpr std::uint64_t kWindowSeedOffset = 0x9E3779B97F4A7C15;

}  // namespace

std::int64_t steps_per_epoch(std::size_t image_count, int images_per_step) {
  const auto per_step = static_cast<std::size_t>(images_per_step);
  return static_cast<std::int64_t>((image_count + per_step - 1) / per_step);
}

EpochPlan::EpochPlan(const std::vector<IndexEntry>& index, const EpochPlanOptions& options,
                     std::int64_t epoch)
    : index_(index), options_(options), epoch_(epoch) {
  RETINA_CHECK(options.images_per_step > 0 && !index.empty());
  order_ = permutation(index.size(), {.seed = options.seed,
                                      .use = RandomUse::kShuffle,
                                      .stream = static_cast<std::uint32_t>(epoch)});
  group_by_aspect();
}

void EpochPlan::group_by_aspect() {
  const auto per_step = static_cast<std::size_t>(options_.images_per_step);
  const std::size_t full_steps = order_.size() / per_step;
  const auto aspect = [this](std::uint32_t place) {
    return static_cast<double>(index_[place].width) / index_[place].height;
  };
  for (std::size_t first = 0; first < full_steps; first += kAspectWindowSteps) {
    const std::size_t steps = std::min(kAspectWindowSteps, full_steps - first);
    const auto begin = order_.begin() + static_cast<std::ptrdiff_t>(first * per_step);
    const auto end = begin + static_cast<std::ptrdiff_t>(steps * per_step);
    std::stable_sort(begin, end, [&](auto a, auto b) { return aspect(a) < aspect(b); });
    // The sorted steps go back in random order, or every window would run from tall to wide.
    const auto places = permutation(
        steps, {.seed = options_.seed ^ kWindowSeedOffset,
                .use = RandomUse::kShuffle,
                .stream = static_cast<std::uint32_t>(
                    epoch_ * 65536 + static_cast<std::int64_t>(first / kAspectWindowSteps))});
    const std::vector<std::uint32_t> sorted(begin, end);
    for (std::size_t i = 0; i < steps; ++i) {
      const auto from = sorted.begin() + static_cast<std::ptrdiff_t>(places[i] * per_step);
      std::copy_n(from, per_step, begin + static_cast<std::ptrdiff_t>(i * per_step));
    }
  }
}

std::int64_t EpochPlan::step_count() const {
  return steps_per_epoch(order_.size(), options_.images_per_step);
}

GlobalStep EpochPlan::step(std::int64_t step) const {
  RETINA_CHECK(step >= 0 && step < step_count());
  const auto per_step = static_cast<std::size_t>(options_.images_per_step);
  const std::size_t first = static_cast<std::size_t>(step) * per_step;
  GlobalStep result;
  for (std::size_t place = first; place < first + per_step; ++place) {
    const bool real = place < order_.size();
    const std::size_t record = order_[place % order_.size()];
    result.slots.push_back(
        {.record = record,
         .flip = flip_image(options_.seed, epoch_, record, options_.flip_probability),
         .counts = real});
    result.real_image_count += real ? 1 : 0;
    const ResizedSize size = resized_size(index_[record].width, index_[record].height,
                                          options_.min_side_px, options_.max_side_px);
    result.padded_width_px = std::max(result.padded_width_px, padded_side_px(size.width));
    result.padded_height_px = std::max(result.padded_height_px, padded_side_px(size.height));
  }
  return result;
}

std::vector<BatchRequest> rank_passes(const GlobalStep& step, int rank, int rank_count,
                                      int images_per_pass) {
  const std::size_t per_rank = step.slots.size() / static_cast<std::size_t>(rank_count);
  RETINA_CHECK(per_rank * static_cast<std::size_t>(rank_count) == step.slots.size());
  const std::size_t first = per_rank * static_cast<std::size_t>(rank);
  const std::size_t per_pass = images_per_pass > 0
                                   ? std::min(per_rank, static_cast<std::size_t>(images_per_pass))
                                   : per_rank;
  std::vector<BatchRequest> passes;
  for (std::size_t done = 0; done < per_rank; done += per_pass) {
    const auto begin = step.slots.begin() + static_cast<std::ptrdiff_t>(first + done);
    const auto count = static_cast<std::ptrdiff_t>(std::min(per_pass, per_rank - done));
    passes.push_back({.slots = {begin, begin + count},
                      .padded_width_px = step.padded_width_px,
                      .padded_height_px = step.padded_height_px});
  }
  return passes;
}

}  // namespace retina
