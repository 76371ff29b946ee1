// The half that both losses share: checks, what the kernels get, what they fill.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "shared/ops/dispatch.h"
#include "shared/ops/kernels.h"
#include "shared/ops/loss_sums.h"

namespace retina::kernels {

// The arguments of a loss op, see focal_loss.h.
struct HeadLossInput {
  at::Tensor matches, weights;          // contiguous
  std::vector<at::Tensor> levels = {};  // [N, a, V] each, contiguous
};
// Throws where shapes or types do not fit together.
HeadLossInput checked_input(const std::vector<at::Tensor>& levels, const at::Tensor& matches,
                            const at::Tensor& weights);

// Memory of a loss's results, with anything in it.
struct HeadLossResults {
  at::Tensor sums, partials;               // [N], [N, kPartials] f64
  std::vector<at::Tensor> gradients = {};  // as the levels
};
HeadLossResults empty_results(const HeadLossInput& input);

// Calls body(HeadLoss<Stored>) with Stored the type of the levels, and returns what it filled.
template <class Body>
LossSums with_head_loss(const HeadLossInput& input, const Body& body) {
  const at::Tensor& first = input.levels.front();
  const c10::DeviceGuard guard(first.device());
  HeadLossResults results = empty_results(input);
  const auto run = [&](auto type) {
    using Stored = decltype(type);
    using Element = std::conditional_t<std::is_same_v<Stored, Bfloat16>, at::BFloat16, Stored>;
    using T = Loaded<Stored>;
    HeadLoss<Stored> loss = {.levels = {},
                             .level_count = static_cast<int>(input.levels.size()),
                             .image_count = first.size(0),
                             .anchor_count = input.matches.size(1),
                             .matches = input.matches.const_data_ptr<std::int64_t>(),
                             .weights = input.weights.const_data_ptr<T>(),
                             .partials = results.partials.mutable_data_ptr<double>(),
                             .sums = results.sums.mutable_data_ptr<T>()};
    std::int64_t anchor = 0;
    for (std::size_t i = 0; i < input.levels.size(); ++i) {
      const at::Tensor& values = input.levels[i];
      loss.levels[i] = {
          .values = reinterpret_cast<const Stored*>(values.const_data_ptr<Element>()),
          .gradient = reinterpret_cast<Stored*>(results.gradients[i].mutable_data_ptr<Element>()),
          .first_anchor = anchor,
          .anchor_count = values.size(1)};
      anchor += values.size(1);
    }
    body(loss);
  };
  if (first.scalar_type() == at::kBFloat16) {
    run(Bfloat16{});
  } else {
    for_type_of(first, run);
  }
  return {.sums = results.sums, .gradients = std::move(results.gradients)};
}

}  // namespace retina::kernels
