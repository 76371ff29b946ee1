#include "train/step/grad_scaler.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "shared/base/error.h"

namespace retina {

GradScaler::GradScaler(const GradScalerOptions& options, c10::Device device)
    : options_(options),
      scale_(
          at::full({}, options.init_scale, at::TensorOptions().dtype(at::kFloat).device(device))),
      growth_tracker_(at::zeros({}, at::TensorOptions().dtype(at::kInt).device(device))),
      skipped_(at::zeros({}, at::TensorOptions().dtype(at::kLong).device(device))) {}

void GradScaler::update(const at::Tensor& found_inf) {
  const at::NoGradGuard no_grad;
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf, options_.growth_factor,
                         options_.backoff_factor, options_.growth_interval);
  skipped_.add_(found_inf.to(at::kLong));
}

std::int64_t GradScaler::skipped_count() const {
  return skipped_.item<std::int64_t>();
}

NamedTensors GradScaler::state() const {
  return {{"grad_scaler.scale", scale_.clone()},
          {"grad_scaler.growth_tracker", growth_tracker_.to(at::kLong)},
          {"grad_scaler.skipped", skipped_.clone()}};
}

void GradScaler::load_state(const NamedTensors& state, const std::string& source) {
  const at::NoGradGuard no_grad;
  const at::Tensor* const own[] = {&scale_, &growth_tracker_, &skipped_};
  const NamedTensors names = this->state();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = std::find_if(state.begin(), state.end(), [&](const NamedTensor& item) {
      return item.name == names[i].name && item.tensor.numel() == 1;
    });
    if (found == state.end()) {
      throw Error(ErrorKind::kConfig, cat(source, ": ", names[i].name, " is missing"),
                  "resume with the --precision that wrote the checkpoint");
    }
    own[i]->copy_(found->tensor.view(own[i]->sizes()));
  }
}

}  // namespace retina
