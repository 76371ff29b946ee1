#include <ATen/ops/from_blob.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "shared/ops/atss.h"
#include "shared/ops/bias_relu.h"
#include "shared/ops/dispatch.h"
#include "shared/ops/dropout.h"
#include "shared/ops/head_losses.h"
#include "shared/ops/matcher.h"
#include "shared/ops/nms.h"
#include "shared/ops/partial_boxes.h"
#include "shared/ops/prepare_images.h"
#include "tests/gpu/emulation/reference.h"

namespace retina::emulation {
namespace {

using kernels::Bfloat16;
using kernels::Element;
using kernels::Float16;
using kernels::Loaded;

// The memory behind an argument, read and never written.
template <class T>
at::Tensor tensor(const T* data, std::vector<std::int64_t> shape) {
  return at::from_blob(const_cast<T*>(data), shape, c10::CppTypeToScalarType<Element<T>>::value);
}

template <class T>
void copy(const at::Tensor& from, T* to) {
  const at::Tensor dense = from.to(c10::CppTypeToScalarType<Element<T>>::value).contiguous();
  std::copy_n(reinterpret_cast<const T*>(dense.const_data_ptr<Element<T>>()), dense.numel(), to);
}

// [N, P, C] in memory as [N, C, P, 1] channels-last.
template <class T>
at::Tensor channels_last(const T* data, std::int64_t images, std::int64_t pixels,
                         std::int64_t channels) {
  return tensor(data, {images, pixels, 1, channels}).permute({0, 3, 1, 2});
}
template <class T>
void copy_channels_last(const at::Tensor& from, T* to) {
  copy(from.permute({0, 2, 3, 1}), to);
}

template <class Stored>
std::vector<at::Tensor> levels_of(const kernels::HeadLoss<Stored>& head, std::int64_t values) {
  std::vector<at::Tensor> levels;
  for (int i = 0; i < head.level_count; ++i) {
    levels.push_back(
        tensor(head.levels[i].values, {head.image_count, head.levels[i].anchor_count, values}));
  }
  return levels;
}
template <class Stored>
at::Tensor matches_of(const kernels::HeadLoss<Stored>& head) {
  return tensor(head.matches, {head.image_count, head.anchor_count});
}
template <class Stored>
void put(const LossSums& loss, const kernels::HeadLoss<Stored>& head) {
  copy(loss.sums, head.sums);
  for (std::size_t i = 0; i < loss.gradients.size(); ++i) {
    copy(loss.gradients[i], head.levels[i].gradient);
  }
}

// One more than the largest box that an anchor has.
template <class Stored>
std::int64_t box_count(const kernels::HeadLoss<Stored>& head) {
  const std::int64_t* const end = head.matches + head.image_count * head.anchor_count;
  return head.matches == end ? 0
                             : std::max<std::int64_t>(0, *std::max_element(head.matches, end) + 1);
}

}  // namespace

template <class T>
void compute(const kernels::Match<T>& m) {
  const at::Tensor offsets = tensor(m.offsets, {m.image_count + 1});
  copy(match_anchors(tensor(m.anchors, {m.anchor_count, 4}),
                     tensor(m.boxes, {m.offsets[m.image_count], 4}), offsets,
                     {.foreground_iou = static_cast<double>(m.foreground_iou),
                      .background_iou = static_cast<double>(m.background_iou),
                      .low_quality_matches = m.low_quality_matches}),
       m.matches);
}
template void compute(const kernels::Match<float>&);
template void compute(const kernels::Match<double>&);

template <class T>
void compute(const kernels::Atss<T>& a) {
  std::vector<PixelSize> grids;
  for (int i = 0; i < a.level_count; ++i) {
    grids.push_back({.height = a.levels[i].rows, .width = a.levels[i].columns});
  }
  copy(
      atss_match_anchors(tensor(a.anchors, {a.anchor_count, 4}), grids,
                         tensor(a.boxes, {a.box_count, 4}), tensor(a.offsets, {a.image_count + 1})),
      a.matches);
}
template void compute(const kernels::Atss<float>&);
template void compute(const kernels::Atss<double>&);

template <class T>
void compute(const kernels::IgnorePartial<T>& p) {
  const at::Tensor boxes = tensor(p.boxes, {p.offsets[p.image_count], 4}),
                   offsets = tensor(p.offsets, {p.image_count + 1}),
                   claims = tensor(p.claims, {p.image_count, p.anchor_count});
  const at::Tensor matches = tensor(p.matches, {p.image_count, p.anchor_count}).clone();
  ignore_partial_boxes(tensor(p.anchors, {p.anchor_count, 4}),
                       {.boxes = boxes, .offsets = offsets, .claims = claims}, matches);
  copy(matches, p.matches);
}
template void compute(const kernels::IgnorePartial<float>&);
template void compute(const kernels::IgnorePartial<double>&);

template <class T>
void compute(const kernels::Nms<T>& n) {
  const at::Tensor boxes = tensor(n.boxes, {n.image_count, n.count, 4}),
                   labels = tensor(n.labels, {n.image_count, n.count});
  copy(suppress_together(boxes, labels, n.iou_threshold), n.keep);
}
template void compute(const kernels::Nms<float>&);
template void compute(const kernels::Nms<double>&);

template <class Stored>
void compute(const kernels::Focal<Stored>& f) {
  if (f.kind != ClassLossKind::kFocal) {
    std::vector<at::Tensor> deltas;
    for (int i = 0; i < f.head.level_count; ++i) {
      const kernels::Level<Stored>& level = f.head.levels[i];
      deltas.push_back(tensor(level.deltas, {f.head.image_count, level.anchor_count, 4}));
    }
    const at::Tensor anchors = tensor(f.predicted.anchors, {f.head.anchor_count, 4}),
                     boxes = tensor(f.predicted.boxes, {box_count(f.head), 4});
    return put(quality_loss(levels_of(f.head, f.class_count),
                            {.deltas = deltas, .anchors = anchors, .boxes = boxes},
                            matches_of(f.head), tensor(f.labels, {box_count(f.head)}),
                            tensor(f.head.weights, {f.head.image_count}), f.kind),
               f.head);
  }
  put(focal_loss(levels_of(f.head, f.class_count), matches_of(f.head),
                 tensor(f.labels, {box_count(f.head)}),
                 tensor(f.head.weights, {f.head.image_count}),
                 {.alpha = static_cast<double>(f.alpha), .gamma = static_cast<double>(f.gamma)}),
      f.head);
}
template void compute(const kernels::Focal<float>&);
template void compute(const kernels::Focal<double>&);
template void compute(const kernels::Focal<Bfloat16>&);
template void compute(const kernels::Focal<Float16>&);

template <class Stored>
void compute(const kernels::BoxLoss<Stored>& b) {
  put(box_loss(levels_of(b.head, 4), tensor(b.anchors, {b.head.anchor_count, 4}),
               tensor(b.boxes, {box_count(b.head), 4}), matches_of(b.head),
               tensor(b.head.weights, {b.head.image_count}), b.options),
      b.head);
}
template void compute(const kernels::BoxLoss<float>&);
template void compute(const kernels::BoxLoss<double>&);
template void compute(const kernels::BoxLoss<Bfloat16>&);
template void compute(const kernels::BoxLoss<Float16>&);

void compute(const kernels::PrepareImages& p) {
  const auto row_bytes = static_cast<std::int64_t>(sizeof(ImageRow));
  std::int64_t block_bytes = 0;
  for (std::int64_t i = 0; i < p.image_count; ++i) {
    block_bytes += std::int64_t{3} * p.rows[i].width * p.rows[i].height;
  }
  PreparedImages wanted = {.padded_width_px = p.width, .padded_height_px = p.height};
  std::copy_n(p.statistics.mean, 3, wanted.normalisation.mean.begin());
  std::copy_n(p.statistics.std, 3, wanted.normalisation.std.begin());
  wanted.type = p.type == kernels::PixelType::kBfloat16  ? at::kBFloat16
                : p.type == kernels::PixelType::kFloat16 ? at::kHalf
                                                         : at::kFloat;
  const at::Tensor images = prepare_images(
      tensor(p.block, {block_bytes}),
      tensor(reinterpret_cast<const std::uint8_t*>(p.rows), {p.image_count * row_bytes}), wanted);
  if (p.type == kernels::PixelType::kBfloat16) {
    copy_channels_last(images, static_cast<Bfloat16*>(p.out));
  } else if (p.type == kernels::PixelType::kFloat16) {
    copy_channels_last(images, static_cast<Float16*>(p.out));
  } else {
    copy_channels_last(images, static_cast<float*>(p.out));
  }
}

template <class Stored>
void compute(const kernels::Dropout<Stored>& d) {
  if (d.image_count == 0 || d.value_count == 0) return;
  const std::int64_t channels = d.channel_count;
  const at::Tensor y =
      dropout(channels_last(d.values, d.image_count, d.value_count / channels, channels),
              std::ldexp(static_cast<double>(d.threshold), -53), tensor(d.slots, {d.image_count}),
              {.seed = d.seed, .step = d.step, .layer = static_cast<int>(d.layer)});
  copy_channels_last(y, d.out);
}
template void compute(const kernels::Dropout<float>&);
template void compute(const kernels::Dropout<double>&);
template void compute(const kernels::Dropout<Bfloat16>&);
template void compute(const kernels::Dropout<Float16>&);

template <class Stored>
void compute(const kernels::BiasRelu<Stored>& b) {
  const std::int64_t channels = b.channel_count, pixels = b.count / channels;
  const bool channels_come_last = b.channel_stride == 1;
  const auto shaped = [&](const Stored* data) {
    return channels_come_last ? channels_last(data, 1, pixels, channels)
                              : tensor(data, {1, channels, pixels, 1});
  };
  const at::NoGradGuard no_gradients;
  const at::Tensor y =
      bias_relu(shaped(b.values).clone(),
                {.bias = b.bias == nullptr ? at::Tensor() : tensor(b.bias, {channels}),
                 .residual = b.residual == nullptr ? at::Tensor() : shaped(b.residual),
                 .relu = b.relu});
  if (channels_come_last) {
    copy_channels_last(y, b.values);
  } else {
    copy(y, b.values);
  }
}
template void compute(const kernels::BiasRelu<float>&);
template void compute(const kernels::BiasRelu<double>&);
template void compute(const kernels::BiasRelu<Bfloat16>&);
template void compute(const kernels::BiasRelu<Float16>&);

template <class Stored>
void compute(const kernels::BiasReluBackward<Stored>& b) {
  const auto shaped = [&](const Stored* data) {
    return channels_last(data, 1, b.row_count, b.channel_count);
  };
  const at::Tensor passed = shaped(b.output_gradients).masked_fill(shaped(b.output).le(0), 0);
  copy_channels_last(passed, b.gradient);
  copy(passed.sum({0, 2, 3}, /*keepdim=*/false, at::kDouble), b.bias_gradient);
}
template void compute(const kernels::BiasReluBackward<float>&);
template void compute(const kernels::BiasReluBackward<double>&);
template void compute(const kernels::BiasReluBackward<Bfloat16>&);
template void compute(const kernels::BiasReluBackward<Float16>&);

namespace {

// In f64, next to which a kernel's own rounding is all there is.
template <class Stored>
struct NormInputs {
  at::Tensor x, weight, bias;

  explicit NormInputs(const kernels::GroupNorm<Stored>& norm)
      : x(image(norm, norm.values)),
        weight(tensor(norm.weight, {norm.channel_count}).to(at::kDouble)),
        bias(tensor(norm.bias, {norm.channel_count}).to(at::kDouble)) {}

  static at::Tensor image(const kernels::GroupNorm<Stored>& norm, const Stored* data) {
    return channels_last(data, norm.image_count, norm.pixel_count, norm.channel_count)
        .to(at::kDouble);
  }
  at::Tensor output(const kernels::GroupNorm<Stored>& norm, double eps) const {
    return at::group_norm(x, norm.group_count, weight, bias, eps).relu();
  }
};

}  // namespace

template <class Stored>
void compute(const kernels::GroupNormForward<Stored>& f) {
  const NormInputs inputs(f.norm);
  if (inputs.x.numel() > 0) copy_channels_last(inputs.output(f.norm, f.eps), f.out);
}
template void compute(const kernels::GroupNormForward<float>&);
template void compute(const kernels::GroupNormForward<double>&);
template void compute(const kernels::GroupNormForward<Bfloat16>&);
template void compute(const kernels::GroupNormForward<Float16>&);

template <class Stored>
void compute(const kernels::GroupNormBackward<Stored>& b, double eps) {
  const kernels::GroupNorm<Stored>& norm = b.norm;
  const NormInputs inputs(norm);
  for (const at::Tensor& input : {inputs.x, inputs.weight, inputs.bias}) input.requires_grad_();
  const auto gradients =
      torch::autograd::grad({inputs.output(norm, eps)}, {inputs.x, inputs.weight, inputs.bias},
                            {NormInputs<Stored>::image(norm, b.output_gradients)});
  copy_channels_last(gradients[0], b.gradient);
  copy(gradients[1], b.weight_gradient);
  copy(gradients[2], b.bias_gradient);
}
template void compute(const kernels::GroupNormBackward<float>&, double);
template void compute(const kernels::GroupNormBackward<double>&, double);
template void compute(const kernels::GroupNormBackward<Bfloat16>&, double);
template void compute(const kernels::GroupNormBackward<Float16>&, double);

namespace {

// Likewise; the residual is undefined where there is none.
template <class Stored>
struct BatchNormInputs {
  at::Tensor x, weight, bias, residual;

  BatchNormInputs(const kernels::BatchNorm<Stored>& norm, const Stored* added)
      : x(rows(norm, norm.values)),
        weight(tensor(norm.weight, {norm.channel_count}).to(at::kDouble)),
        bias(tensor(norm.bias, {norm.channel_count}).to(at::kDouble)) {
    if (added != nullptr) residual = rows(norm, added);
  }
  // [R, C] in memory as [1, C, R, 1] channels-last.
  static at::Tensor rows(const kernels::BatchNorm<Stored>& norm, const Stored* data) {
    return channels_last(data, 1, norm.row_count, norm.channel_count).to(at::kDouble);
  }
  at::Tensor output(bool relu, double eps) const {
    at::Tensor y = at::batch_norm(x, weight, bias, {}, {}, /*training=*/true, /*momentum=*/0, eps,
                                  /*cudnn_enabled=*/false);
    if (residual.defined()) y = y + residual;
    return relu ? y.relu() : y;
  }
};

}  // namespace

template <class Stored>
void compute(const kernels::BatchNormForward<Stored>& f) {
  const BatchNormInputs<Stored> inputs(f.norm, f.residual);
  const auto move = [&f](auto* running, const at::Tensor& found) {
    const at::Tensor before = tensor(running, {f.norm.channel_count}).to(at::kDouble);
    copy(before * (1 - f.momentum) + found * f.momentum, running);
  };
  const auto count = static_cast<double>(f.norm.row_count);
  move(f.running_mean, inputs.x.mean({0, 2, 3}));
  move(f.running_var,
       inputs.x.var({0, 2, 3}, /*unbiased=*/false) * count / std::max(count - 1, 1.));
  copy_channels_last(inputs.output(f.norm.relu, f.eps), f.out);
}
template void compute(const kernels::BatchNormForward<float>&);
template void compute(const kernels::BatchNormForward<double>&);
template void compute(const kernels::BatchNormForward<Bfloat16>&);
template void compute(const kernels::BatchNormForward<Float16>&);

template <class Stored>
void compute(const kernels::BatchNormBackward<Stored>& b, const Stored* residual, double eps) {
  const BatchNormInputs<Stored> inputs(b.norm, residual);
  std::vector<at::Tensor> leaves = {inputs.x, inputs.weight, inputs.bias};
  if (residual != nullptr) leaves.push_back(inputs.residual);
  for (const at::Tensor& leaf : leaves) leaf.requires_grad_();
  const auto gradients =
      torch::autograd::grad({inputs.output(b.norm.relu, eps)}, leaves,
                            {BatchNormInputs<Stored>::rows(b.norm, b.output_gradients)});
  copy_channels_last(gradients[0], b.gradient);
  copy(gradients[1], b.weight_gradient);
  copy(gradients[2], b.bias_gradient);
  if (b.output != nullptr) copy_channels_last(gradients[3], b.residual_gradient);
}
template void compute(const kernels::BatchNormBackward<float>&, const float*, double);
template void compute(const kernels::BatchNormBackward<double>&, const double*, double);
template void compute(const kernels::BatchNormBackward<Bfloat16>&, const Bfloat16*, double);
template void compute(const kernels::BatchNormBackward<Float16>&, const Float16*, double);

}  // namespace retina::emulation
