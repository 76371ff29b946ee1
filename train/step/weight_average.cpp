#include "train/step/weight_average.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_lerp.h>

#include <algorithm>
#include <utility>

#include "shared/base/error.h"

namespace retina {

WeightAverage::WeightAverage(const Network& network, double decay) : decay_(decay) {
  RETINA_CHECK(decay > 0 && decay < 1);
  for (const auto& [name, tensor] : state_of(network)) {
    if (!tensor.is_floating_point()) continue;  // counters are not weights
    names_.push_back(name);
    weights_.push_back(tensor.detach());
    averages_.push_back(tensor.detach().clone());
  }
}

void WeightAverage::update(std::int64_t step) {
  const at::NoGradGuard no_grad;
  const auto count = static_cast<double>(step);
  const double decay = std::min(decay_, (1 + count) / (10 + count));
  at::_foreach_lerp_(averages_, weights_, 1 - decay);
}

void WeightAverage::reset() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < weights_.size(); ++i) averages_[i].copy_(weights_[i]);
}

void WeightAverage::swap() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const at::Tensor weights = weights_[i].clone();
    weights_[i].copy_(averages_[i]);
    averages_[i].copy_(weights);
  }
}

NamedTensors WeightAverage::state() const {
  NamedTensors state;
  for (std::size_t i = 0; i < names_.size(); ++i) state.emplace_back(names_[i], averages_[i]);
  return state;
}

}  // namespace retina
