#include "train/step/detection_loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>

namespace retina {
namespace {

// Images with their boxes, whose anchors are matched.
struct BoxesOfImages {
  const at::Tensor &boxes, &offsets;
  PixelSize padded;
};
at::Tensor assign(const at::Tensor& anchors, const BoxesOfImages& images,
                  const LossOptions& options) {
  if (options.assigner == Assigner::kIou) {
    return match_anchors(anchors, images.boxes, images.offsets, options.match);
  }
  const auto grids = level_grids(images.padded);
  return atss_match_anchors(anchors, {grids.begin(), grids.end()}, images.boxes, images.offsets);
}

// Returns matches [N, A], of pad slots too.
at::Tensor matches_of(const at::Tensor& anchors, const at::Tensor& boxes,
                      const BatchTargets& targets, const LossOptions& options) {
  at::Tensor matches = assign(anchors, {boxes, targets.offsets, targets.padded}, options);
  if (!targets.partial_boxes.defined()) return matches;
  const at::Tensor partial = targets.partial_boxes.to(anchors.scalar_type());
  const at::Tensor claims =
      assign(anchors, {partial, targets.partial_offsets, targets.padded}, options);
  ignore_partial_boxes(
      anchors, {.boxes = partial, .offsets = targets.partial_offsets, .claims = claims}, matches);
  return matches;
}

}  // namespace

void DetectionLoss::backward() const {
  torch::autograd::backward(outputs, gradients);
}

BatchTargets batch_targets(const Batch& batch, c10::Device device) {
  std::int64_t box_count = 0, partial_count = 0;
  for (const Sample& sample : batch.samples) {
    box_count += static_cast<std::int64_t>(sample.boxes.size());
    partial_count += static_cast<std::int64_t>(sample.partial_boxes.size());
  }
  const auto image_count = static_cast<std::int64_t>(batch.samples.size());
  // Offsets of both kinds of boxes, counts, labels, and two words for the four coordinates of each
  // box.
  const std::int64_t first_label = 3 * image_count + 2;
  const at::Tensor words =
      at::empty({first_label + 3 * box_count + 2 * partial_count},
                at::TensorOptions().dtype(at::kLong).pinned_memory(device.is_cuda()));
  std::int64_t* const offsets = words.mutable_data_ptr<std::int64_t>();
  std::int64_t* const partial_offsets = offsets + image_count + 1;
  std::int64_t* const counts = partial_offsets + image_count + 1;
  std::int64_t* label = offsets + first_label;
  auto* box = reinterpret_cast<std::array<float, 4>*>(label + box_count);
  auto* partial = box + box_count;
  offsets[0] = 0;
  partial_offsets[0] = 0;
  for (std::int64_t i = 0; i < image_count; ++i) {
    const Sample& sample = batch.samples[static_cast<std::size_t>(i)];
    offsets[i + 1] = offsets[i] + static_cast<std::int64_t>(sample.boxes.size());
    partial_offsets[i + 1] =
        partial_offsets[i] + static_cast<std::int64_t>(sample.partial_boxes.size());
    counts[i] = sample.slot.counts ? 1 : 0;
    label = std::copy(sample.labels.begin(), sample.labels.end(), label);
    box = std::copy(sample.boxes.begin(), sample.boxes.end(), box);
    partial = std::copy(sample.partial_boxes.begin(), sample.partial_boxes.end(), partial);
  }
  const at::Tensor all = words.to(device, /*non_blocking=*/true);
  const at::Tensor boxes = all.narrow(0, first_label + box_count, 2 * (box_count + partial_count))
                               .view(at::kFloat)
                               .view({-1, 4});
  BatchTargets targets = {.boxes = boxes.narrow(0, 0, box_count),
                          .labels = all.narrow(0, first_label, box_count),
                          .offsets = all.narrow(0, 0, image_count + 1),
                          .counts = all.narrow(0, 2 * image_count + 2, image_count),
                          .padded = {.height = batch.padded.height, .width = batch.padded.width}};
  if (partial_count > 0) {
    targets.partial_boxes = boxes.narrow(0, box_count, partial_count);
    targets.partial_offsets = all.narrow(0, image_count + 1, image_count + 1);
  }
  return targets;
}

DetectionLoss detection_loss(const HeadOutputs& outputs, const at::Tensor& anchors,
                             const BatchTargets& targets, const LossOptions& options,
                             std::int64_t images_global, const at::Tensor& gradient_scale) {
  RETINA_CHECK(images_global >= 1);
  const at::NoGradGuard no_grad;
  const at::Tensor boxes = targets.boxes.to(anchors.scalar_type());
  const at::Tensor matches = matches_of(anchors, boxes, targets, options);
  // Ignored everywhere: the kernels then write neither loss nor gradient for a pad slot.
  matches.masked_fill_(targets.counts.eq(0).unsqueeze(1), kIgnored);   // [N, A]
  const at::Tensor foreground = matches.ge(0).sum(1).clamp_min(1);     // [N]
  const at::Tensor shares = targets.counts.to(anchors.scalar_type());  // [N]
  const at::Tensor weights =
      shares * (1.0 / static_cast<double>(images_global)) / foreground;  // [N]
  const at::Tensor gradient_weights =
      gradient_scale.defined() ? weights * gradient_scale : weights;  // [N]
  const FocalOptions focal = {.alpha = options.focal_alpha, .gamma = options.focal_gamma};
  const LossSums classes =
      options.class_loss == ClassLossKind::kFocal
          ? focal_loss(outputs.logits, matches, targets.labels, gradient_weights, focal)
          : quality_loss(outputs.logits,
                         {.deltas = outputs.deltas, .anchors = anchors, .boxes = boxes}, matches,
                         targets.labels, gradient_weights, options.class_loss);
  const LossSums shifts = box_loss(outputs.deltas, anchors, boxes, matches,
                                   gradient_weights * options.box_weight, options.box);
  DetectionLoss loss = {.classification = (classes.sums * weights).sum(),
                        .box_regression = (shifts.sums * weights).sum() * options.box_weight};
  const auto collect = [&loss](const std::vector<at::Tensor>& values, const LossSums& sums) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!values[i].requires_grad()) continue;
      loss.outputs.push_back(values[i]);
      loss.gradients.push_back(sums.gradients[i]);
    }
  };
  collect(outputs.logits, classes);
  collect(outputs.deltas, shifts);
  return loss;
}

}  // namespace retina
