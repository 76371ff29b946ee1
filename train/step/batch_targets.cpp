#include "train/step/batch_targets.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace retina {

BatchTargets batch_targets(const Batch& batch, c10::Device device) {
  std::int64_t box_count = 0;
  for (const Sample& sample : batch.samples) {
    box_count += static_cast<std::int64_t>(sample.boxes.size());
  }
  const auto image_count = static_cast<std::int64_t>(batch.samples.size());
  // Offsets, counts, labels, and two words for the four coordinates of each box.
  const at::Tensor words =
      at::empty({2 * image_count + 1 + 3 * box_count},
                at::TensorOptions().dtype(at::kLong).pinned_memory(device.is_cuda()));
  std::int64_t* const offsets = words.mutable_data_ptr<std::int64_t>();
  std::int64_t* const counts = offsets + image_count + 1;
  std::int64_t* label = counts + image_count;
  auto* box = reinterpret_cast<std::array<float, 4>*>(label + box_count);
  offsets[0] = 0;
  for (std::int64_t i = 0; i < image_count; ++i) {
    const Sample& sample = batch.samples[static_cast<std::size_t>(i)];
    offsets[i + 1] = offsets[i] + static_cast<std::int64_t>(sample.boxes.size());
    counts[i] = sample.slot.counts ? 1 : 0;
    label = std::copy(sample.labels.begin(), sample.labels.end(), label);
    box = std::copy(sample.boxes.begin(), sample.boxes.end(), box);
  }
  const at::Tensor all = words.to(device, /*non_blocking=*/true);
  const std::int64_t first_label = 2 * image_count + 1;
  return {
      .boxes = all.narrow(0, first_label + box_count, 2 * box_count).view(at::kFloat).view({-1, 4}),
      .labels = all.narrow(0, first_label, box_count),
      .offsets = all.narrow(0, 0, image_count + 1),
      .counts = all.narrow(0, image_count + 1, image_count)};
}

}  // namespace retina
