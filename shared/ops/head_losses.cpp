#include "shared/ops/head_losses.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <utility>

#include "shared/anchor/anchor.h"
#include "shared/ops/box_formulas.h"
#include "shared/ops/dispatch.h"
#include "shared/ops/own_kernels.h"

namespace retina {
namespace kernels {
namespace {

// --- On the CPU: kPartials fixed shares an image, summed in order --------------------------------

constexpr std::int64_t kValuesPerThread = 1 << 13;  // fewer do not pay for a thread

// sums[n] = sum over shares of those of level_sum(level, n, first anchor, end anchor), an f64, over
// the share's part of each level. Shares in parallel.
template <class Stored, class LevelSum>
void sum_in_shares(const HeadLoss<Stored>& head, std::int64_t values_per_anchor,
                   const LevelSum& level_sum) {
  const std::int64_t share_values = 1 + head.anchor_count * values_per_anchor / kPartials;
  const std::int64_t grain = 1 + kValuesPerThread / share_values;
  const auto share_sum = [&](std::int64_t image, std::int64_t share) {
    const std::int64_t first = head.anchor_count * share / kPartials,
                       end = head.anchor_count * (share + 1) / kPartials;
    double sum = 0;
    for (int i = 0; i < head.level_count; ++i) {
      const Level<Stored>& level = head.levels[i];
      const std::int64_t from = std::max(first, level.first_anchor),
                         to = std::min(end, level.end_anchor());
      if (from < to) sum += level_sum(level, image, from, to);
    }
    return sum;
  };
  at::parallel_for(0, head.image_count * kPartials, grain,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) {
                       head.partials[i] = share_sum(i / kPartials, i % kPartials);
                     }
                   });
  for (std::int64_t image = 0; image < head.image_count; ++image) {
    const double* partials = head.partials + image * kPartials;
    double sum = 0;
    for (int share = 0; share < kPartials; ++share) sum += partials[share];
    head.sums[image] = static_cast<Loaded<Stored>>(sum);
  }
}

// The terms of `count` background logits and their gradients, for gamma 2.
struct TermWeights {
  float term, gradient;  // a gradient gets both
};
RETINA_WIDE void square_terms(const float* __restrict logits, std::int64_t count,
                              TermWeights weights, float* __restrict gradient,
                              float* __restrict terms) {
  for (std::int64_t i = 0; i < count; ++i) {
    const FocalTerm<float> term = focal_term(logits[i], 2.0F);
    terms[i] = weights.term * term.value;
    gradient[i] = weights.term * term.derivative * weights.gradient;
  }
}
RETINA_WIDE void widen(const Bfloat16* __restrict values, std::int64_t count,
                       float* __restrict wide) {
  for (std::int64_t i = 0; i < count; ++i) wide[i] = loaded(values[i]);
}
RETINA_WIDE void widen(const Float16* __restrict values, std::int64_t count,
                       float* __restrict wide) {
  for (std::int64_t i = 0; i < count; ++i) wide[i] = loaded(values[i]);
}
RETINA_WIDE void narrow(const float* __restrict wide, std::int64_t count,
                        Bfloat16* __restrict values) {
  for (std::int64_t i = 0; i < count; ++i) store(wide[i], values + i);
}
RETINA_WIDE void narrow(const float* __restrict wide, std::int64_t count,
                        Float16* __restrict values) {
  for (std::int64_t i = 0; i < count; ++i) store(wide[i], values + i);
}

// The sum over background logits, whose gradients go to `gradient`.
template <class Stored>
double background_sum(const Stored* logits, std::int64_t count, TermWeights weights,
                      Stored* gradient) {
  constexpr std::int64_t kBlock = 1024;
  std::array<float, kBlock> terms, wide, wide_gradient;
  std::array<double, kLanes> lanes{};
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t size = std::min(kBlock, count - begin);
    if constexpr (std::is_same_v<Stored, float>) {
      square_terms(logits + begin, size, weights, gradient + begin, terms.data());
    } else {
      widen(logits + begin, size, wide.data());
      square_terms(wide.data(), size, weights, wide_gradient.data(), terms.data());
      narrow(wide_gradient.data(), size, gradient + begin);
    }
    for (std::int64_t i = 0; i < size; ++i) {
      lanes[static_cast<std::size_t>(i % kLanes)] += static_cast<double>(terms[i]);
    }
  }
  return std::accumulate(lanes.begin(), lanes.end(), 0.0);
}

// One anchor's class, -1 for none, and the IoU of its predicted box.
template <class T>
struct RowTarget {
  std::int64_t label;
  T quality;
};

// The sum over one anchor's logits.
template <class Stored, class T = Loaded<Stored>>
double row_sum(const Focal<Stored>& f, const Stored* logits, const RowTarget<T>& target,
               T image_weight, Stored* gradient) {
  double sum = 0;
  for (std::int64_t k = 0; k < f.class_count; ++k) {
    const auto term = class_term(f, loaded(logits[k]), k == target.label, target.quality);
    sum += static_cast<double>(term.value);
    store(term.derivative * image_weight, gradient + k);
  }
  return sum;
}

// The sum over anchors first .. end - 1 of an image, all on one level.
template <class Stored, class T = Loaded<Stored>>
double level_sum(const Focal<Stored>& f, const Level<Stored>& level, std::int64_t image,
                 std::int64_t first, std::int64_t end) {
  const std::int64_t* matches = f.head.matches + image * f.head.anchor_count;
  const auto image_weight = f.head.weights[image];
  double sum = 0;
  for (std::int64_t a = first; a < end;) {
    const std::int64_t place = level.place(image, a, f.class_count);
    const Stored* logits = level.values + place;
    Stored* gradient = level.gradient + place;
    if constexpr (!std::is_same_v<Stored, double>) {
      std::int64_t run = 0;  // background anchors from here on
      while (a + run < end && matches[a + run] == kBackground) ++run;
      if (run > 0 && f.gamma == 2) {
        sum += background_sum(logits, run * f.class_count, {1 - f.alpha, image_weight}, gradient);
        a += run;
        continue;
      }
    }
    if (matches[a] == kIgnored) {
      std::fill_n(gradient, f.class_count, Stored{});
    } else {
      RowTarget<T> target = {.label = -1, .quality = T(0)};
      if (matches[a] >= 0) {
        target.label = f.labels[matches[a]];
        if (f.kind != ClassLossKind::kFocal) {
          target.quality =
              predicted_iou(f.predicted, level, {.anchor = a, .match = matches[a], .image = image});
        }
      }
      sum += row_sum(f, logits, target, image_weight, gradient);
    }
    ++a;
  }
  return sum;
}

template <class Stored>
void focal_cpu(const Focal<Stored>& f) {
  sum_in_shares(f.head, f.class_count,
                [&f](const Level<Stored>& level, std::int64_t image, std::int64_t first,
                     std::int64_t end) { return level_sum(f, level, image, first, end); });
}

template <class Stored>
void box_loss_cpu(const BoxLoss<Stored>& b) {
  with_kind(b, [&b](const auto& loss) {
    const auto level_sum = [&b, &loss](const Level<Stored>& level, std::int64_t image,
                                       std::int64_t first, std::int64_t end) {
      const std::int64_t* matches = b.head.matches + image * b.head.anchor_count;
      double sum = 0;
      for (std::int64_t a = first; a < end; ++a) {
        const std::int64_t place = level.place(image, a, 4);
        sum += anchor_loss(b, loss, {.anchor = a, .match = matches[a], .image = image},
                           level.values + place, level.gradient + place);
      }
      return sum;
    };
    sum_in_shares(b.head, 4, level_sum);
  });
}

// --- What both losses check and fill -------------------------------------------------------------

// The arguments of a loss op, see head_losses.h.
struct HeadLossInput {
  at::Tensor matches, weights;          // contiguous
  std::vector<at::Tensor> levels = {};  // [N, a, V] each, contiguous
};
// Throws where shapes or types do not fit together.
HeadLossInput checked_input(const std::vector<at::Tensor>& levels, const at::Tensor& matches,
                            const at::Tensor& weights) {
  RETINA_CHECK(!levels.empty() && levels.size() <= std::size_t{kMaxLevels});
  RETINA_CHECK(matches.dim() == 2 && matches.scalar_type() == at::kLong && weights.dim() == 1);
  const at::Tensor& first = levels.front();
  const bool is_16_bit = c10::isReducedFloatingType(first.scalar_type());
  RETINA_CHECK(weights.scalar_type() == (is_16_bit ? at::kFloat : first.scalar_type()));
  HeadLossInput input = {.matches = matches.contiguous(), .weights = weights.contiguous()};
  std::int64_t anchor_count = 0;
  for (const at::Tensor& level : levels) {
    RETINA_CHECK(level.dim() == 3 && level.size(2) == first.size(2));
    RETINA_CHECK(level.scalar_type() == first.scalar_type());
    RETINA_CHECK(level.size(0) == matches.size(0) && level.size(0) == weights.size(0));
    input.levels.push_back(level.detach().contiguous());
    anchor_count += level.size(1);
  }
  RETINA_CHECK(anchor_count == matches.size(1));
  return input;
}

// Calls body(HeadLoss<Stored>) with Stored the type of the levels, and returns what it filled.
// `deltas`: as Level has them, none or of each level.
template <class Body>
LossSums with_head_loss(const HeadLossInput& input, const std::vector<at::Tensor>& deltas,
                        const Body& body) {
  const at::Tensor& first = input.levels.front();
  // Memory of the results, with anything in it.
  const at::Tensor sums = at::empty_like(input.weights);  // [N]
  const at::Tensor partials =
      at::empty({first.size(0), kPartials}, input.weights.options().dtype(at::kDouble));
  std::vector<at::Tensor> gradients;  // as the levels
  for (const at::Tensor& level : input.levels) gradients.push_back(at::empty_like(level));

  for_stored_type_of(first, [&](auto type) {
    using Stored = decltype(type);
    using T = Loaded<Stored>;
    HeadLoss<Stored> loss = {.levels = {},
                             .level_count = static_cast<int>(input.levels.size()),
                             .image_count = first.size(0),
                             .anchor_count = input.matches.size(1),
                             .matches = input.matches.const_data_ptr<std::int64_t>(),
                             .weights = input.weights.const_data_ptr<T>(),
                             .partials = partials.mutable_data_ptr<double>(),
                             .sums = sums.mutable_data_ptr<T>()};
    std::int64_t anchor = 0;
    for (std::size_t i = 0; i < input.levels.size(); ++i) {
      const at::Tensor& values = input.levels[i];
      loss.levels[i] = {.values = read_data<Stored>(values),
                        .gradient = write_data<Stored>(gradients[i]),
                        .first_anchor = anchor,
                        .anchor_count = values.size(1)};
      if (!deltas.empty()) loss.levels[i].deltas = read_data<Stored>(deltas[i]);
      anchor += values.size(1);
    }
    body(loss);
  });
  return {.sums = sums, .gradients = std::move(gradients)};
}

// On the CPU, and back from it.
at::Tensor here(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.cpu() : tensor;
}
std::vector<at::Tensor> here(std::vector<at::Tensor> tensors) {
  for (at::Tensor& tensor : tensors) tensor = here(tensor);
  return tensors;
}
LossSums back(LossSums loss, c10::Device device) {
  for (at::Tensor& gradient : loss.gradients) gradient = gradient.to(device);
  return {.sums = loss.sums.to(device), .gradients = std::move(loss.gradients)};
}

// What the class loss's kernels get besides the head's outputs.
struct ClassLossInput {
  HeadLossInput head;
  at::Tensor labels;                    // contiguous
  std::vector<at::Tensor> deltas = {};  // contiguous; quality losses only
  at::Tensor anchors = {}, boxes = {};  // likewise
};
LossSums class_loss(const ClassLossInput& input, ClassLossKind kind, const FocalOptions& options) {
  RETINA_CHECK(input.labels.dim() == 1 && input.labels.scalar_type() == at::kLong);
  if (is_replaced(OwnKernel::kLosses, input.labels)) {
    const HeadLossInput& head = input.head;
    return back(class_loss({.head = {here(head.matches), here(head.weights), here(head.levels)},
                            .labels = here(input.labels),
                            .deltas = here(input.deltas),
                            .anchors = here(input.anchors),
                            .boxes = here(input.boxes)},
                           kind, options),
                input.labels.device());
  }
  const auto body = [&]<class Stored>(const HeadLoss<Stored>& head) {
    using T = Loaded<Stored>;
    Focal<Stored> arguments = {.head = head,
                               .labels = input.labels.const_data_ptr<std::int64_t>(),
                               .class_count = input.head.levels.front().size(2),
                               .alpha = static_cast<T>(options.alpha),
                               .gamma = static_cast<T>(options.gamma),
                               .kind = kind};
    if (kind != ClassLossKind::kFocal) {
      arguments.predicted = {.anchors = input.anchors.const_data_ptr<T>(),
                             .boxes = input.boxes.const_data_ptr<T>(),
                             .max_log_size = static_cast<T>(kMaxLogSize)};
    }
    run_implementation("class_loss", input.head.matches, arguments, focal_cpu<Stored>);
  };
  return with_head_loss(input.head, input.deltas, body);
}

void check_boxes(const at::Tensor& anchors, const at::Tensor& boxes, const HeadLossInput& head) {
  RETINA_CHECK(anchors.dim() == 2 && anchors.size(0) == head.matches.size(1));
  RETINA_CHECK(anchors.size(1) == 4 && boxes.dim() == 2 && boxes.size(1) == 4);
  RETINA_CHECK(anchors.scalar_type() == head.weights.scalar_type());
  RETINA_CHECK(boxes.scalar_type() == head.weights.scalar_type());
}

}  // namespace
}  // namespace kernels

LossSums focal_loss(const std::vector<at::Tensor>& logits, const at::Tensor& matches,
                    const at::Tensor& labels, const at::Tensor& weights,
                    const FocalOptions& options) {
  return kernels::class_loss(
      {.head = kernels::checked_input(logits, matches, weights), .labels = labels.contiguous()},
      ClassLossKind::kFocal, options);
}

LossSums quality_loss(const std::vector<at::Tensor>& logits, const PredictedBoxes& predicted,
                      const at::Tensor& matches, const at::Tensor& labels,
                      const at::Tensor& weights, ClassLossKind kind) {
  RETINA_CHECK(kind != ClassLossKind::kFocal);
  kernels::ClassLossInput input = {
      .head = kernels::checked_input(logits, matches, weights),
      .labels = labels.contiguous(),
      .deltas = kernels::checked_input(predicted.deltas, matches, weights).levels,
      .anchors = predicted.anchors.contiguous(),
      .boxes = predicted.boxes.contiguous()};
  RETINA_CHECK(input.deltas.size() == logits.size() && input.deltas.front().size(2) == 4);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    RETINA_CHECK(input.deltas[i].size(1) == logits[i].size(1));
    RETINA_CHECK(input.deltas[i].scalar_type() == logits[i].scalar_type());
  }
  kernels::check_boxes(input.anchors, input.boxes, input.head);
  // Background terms weigh 1 - alpha: 1 (Li et al. 2020, eq. 3) or 0.75 (Zhang et al. 2021).
  const bool is_varifocal = kind == ClassLossKind::kVarifocal;
  return kernels::class_loss(input, kind, {.alpha = is_varifocal ? 0.25 : 0, .gamma = 2});
}

LossSums box_loss(const std::vector<at::Tensor>& deltas, const at::Tensor& anchors,
                  const at::Tensor& boxes, const at::Tensor& matches, const at::Tensor& weights,
                  const BoxLossOptions& options) {
  const kernels::HeadLossInput input = kernels::checked_input(deltas, matches, weights);
  RETINA_CHECK(deltas.front().size(2) == 4);
  kernels::check_boxes(anchors, boxes, input);
  RETINA_CHECK(options.smooth_l1_beta > 0 && options.target_std > 0);
  if (is_replaced(OwnKernel::kLosses, matches)) {
    using kernels::here;
    return kernels::back(
        box_loss(here(deltas), here(anchors), here(boxes), here(matches), here(weights), options),
        matches.device());
  }
  const at::Tensor all_anchors = anchors.contiguous(), all_boxes = boxes.contiguous();
  const auto body = [&]<class Stored>(const kernels::HeadLoss<Stored>& head) {
    using T = kernels::Loaded<Stored>;
    const kernels::BoxLoss<Stored> arguments = {.head = head,
                                                .anchors = all_anchors.const_data_ptr<T>(),
                                                .boxes = all_boxes.const_data_ptr<T>(),
                                                .options = options,
                                                .max_log_size = kMaxLogSize};
    kernels::run_implementation("box_loss", input.matches, arguments,
                                kernels::box_loss_cpu<Stored>);
  };
  return kernels::with_head_loss(input, {}, body);
}

}  // namespace retina
