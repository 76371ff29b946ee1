#include "train/plan/training_plan.h"

#include <algorithm>

namespace retina {

TrainingPlan::TrainingPlan(const ImageIndex& index, const EpochPlanOptions& options,
                           std::int64_t epoch_steps)
    : index_(index),
      options_(options),
      steps_per_data_epoch_(
          retina::steps_per_data_epoch(draws_per_epoch(index, options), options.images_per_step)),
      steps_per_epoch_(epoch_steps > 0 ? epoch_steps : steps_per_data_epoch_) {}

const EpochPlan& TrainingPlan::epoch_plan_of(std::int64_t step) {
  const std::int64_t epoch = step / steps_per_data_epoch_;
  if (epoch != epoch_) {
    epoch_ = epoch;
    epoch_plan_ = std::make_shared<EpochPlan>(index_, options_, epoch);
  }
  return *epoch_plan_;
}

GlobalStep TrainingPlan::at(std::int64_t step) {
  GlobalStep whole = epoch_plan_of(step).step(step % steps_per_data_epoch_);
  whole.number = step;
  return whole;
}

ImageSize TrainingPlan::largest_padded(std::int64_t begin, std::int64_t end) {
  // No step can have more than the largest sides of all images.
  FrameRule rule = options_.frame;
  if (!options_.min_sides_px.empty()) {
    rule.min_side_px =
        *std::max_element(options_.min_sides_px.begin(), options_.min_sides_px.end());
  }
  ImageSize most;
  for (const IndexEntry& image : index_) {
    const ImageSize size = padded_size({image.width, image.height}, rule);
    most.width = std::max(most.width, size.width);
    most.height = std::max(most.height, size.height);
  }
  const auto pixels = [](const ImageSize& size) { return std::int64_t{size.width} * size.height; };
  ImageSize largest;
  for (std::int64_t step = begin; step < end && pixels(largest) < pixels(most); ++step) {
    const ImageSize size = epoch_plan_of(step).padded(step % steps_per_data_epoch_);
    if (pixels(size) > pixels(largest)) largest = size;
  }
  return largest;
}

}  // namespace retina
