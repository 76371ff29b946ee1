#include "tests/ops/test_tensors.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/types.h>

#include "shared/numeric/random.h"
#include "shared/ops/dispatch.h"

namespace retina {
namespace {

// ctest runs many tests side by side: one thread each, or they wait for each other's.
[[maybe_unused]] const bool kOneThread = [] {
  at::set_num_threads(1);
  return true;
}();

}  // namespace

at::Tensor random_tensor(const RandomTensor& wanted) {
  const RandomStream stream = {.seed = wanted.seed, .use = RandomUse::kTest, .stream = 0};
  at::Tensor values = at::empty(wanted.shape, at::kDouble);
  double* out = values.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    out[i] = wanted.low + (wanted.high - wanted.low) * stream.unit(static_cast<std::uint64_t>(i));
  }
  return values;
}

at::Tensor random_boxes(const RandomBoxes& wanted) {
  const at::Tensor corner = random_tensor(
      {.seed = wanted.seed, .shape = {wanted.count, 2}, .low = 0, .high = wanted.extent});
  const at::Tensor size = random_tensor(
      {.seed = wanted.seed + 1000, .shape = {wanted.count, 2}, .low = 1, .high = wanted.side});
  return at::cat({corner, corner + size}, 1);
}

at::Tensor encode_boxes(const at::Tensor& boxes, const at::Tensor& anchors) {
  const at::Tensor from = boxes.contiguous(), relative_to = anchors.contiguous();
  const at::Tensor deltas = at::empty_like(from);
  kernels::for_type_of(from, [&](auto type) {
    using T = decltype(type);
    for (std::int64_t i = 0; i < 4 * from.size(0); i += 4) {
      kernels::encode_box(from.const_data_ptr<T>() + i, relative_to.const_data_ptr<T>() + i,
                          deltas.mutable_data_ptr<T>() + i);
    }
  });
  return deltas;
}

at::Tensor match_one(const at::Tensor& anchors, const at::Tensor& boxes,
                     const MatchOptions& options) {
  return match_anchors(anchors, boxes, torch::tensor({std::int64_t{0}, boxes.size(0)}), options)[0];
}

BatchTargets batch_of(const std::vector<BoxTargets>& targets, c10::Device device) {
  std::vector<at::Tensor> boxes = {torch::zeros({0, 4})}, labels = {torch::zeros({0}, at::kLong)};
  std::vector<at::Tensor> partial;
  std::vector<std::int64_t> offsets = {0}, partial_offsets = {0}, counts;
  for (const BoxTargets& target : targets) {
    boxes.push_back(target.boxes);
    labels.push_back(target.labels);
    offsets.push_back(offsets.back() + target.boxes.size(0));
    counts.push_back(target.counts ? 1 : 0);
    if (target.partial_boxes.defined()) partial.push_back(target.partial_boxes);
    partial_offsets.push_back(partial_offsets.back() +
                              (target.partial_boxes.defined() ? partial.back().size(0) : 0));
  }
  BatchTargets batch = {.boxes = torch::cat(boxes).to(device),
                        .labels = torch::cat(labels).to(device),
                        .offsets = torch::tensor(offsets).to(device),
                        .counts = torch::tensor(counts).to(device)};
  if (!partial.empty()) {
    batch.partial_boxes = torch::cat(partial).to(device);
    batch.partial_offsets = torch::tensor(partial_offsets).to(device);
  }
  return batch;
}

at::Tensor central_differences(const std::function<double(const at::Tensor&)>& value,
                               const at::Tensor& input, double step) {
  at::Tensor moved = input.detach().clone().contiguous();
  at::Tensor gradient = at::empty_like(moved);
  for (std::int64_t i = 0; i < moved.numel(); ++i) {
    double& place = moved.mutable_data_ptr<double>()[i];
    const double middle = place;
    place = middle + step;
    const double above = value(moved);
    place = middle - step;
    const double below = value(moved);
    place = middle;
    gradient.mutable_data_ptr<double>()[i] = (above - below) / (2 * step);
  }
  return gradient;
}

}  // namespace retina
