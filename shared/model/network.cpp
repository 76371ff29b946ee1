#include "shared/model/network.h"

#include <ATen/core/grad_mode.h>

#include <cmath>

namespace retina {

Network::Network(const ModelConfig& config) : config_(config) {
  config_.validate();  // before any layer is built: a bad value is reported as the user's
}

// The layers hold the same tensors: each gets other values, none is replaced.
void Network::to(c10::Device device) {
  const at::NoGradGuard no_grad;
  for (const ModelTensor& item : tensors_) item.tensor.set_data(item.tensor.to(device));
}

void Network::to(c10::ScalarType type) {
  const at::NoGradGuard no_grad;
  for (const ModelTensor& item : tensors_) {
    if (item.tensor.is_floating_point()) item.tensor.set_data(item.tensor.to(type));
  }
}

StartValue resnet_start_value(const std::string& name, const at::Tensor& like) {
  if (like.dim() == 4) {
    const auto fan_out = static_cast<double>(like.size(0) * like.size(2) * like.size(3));
    return {.kind = StartValue::Kind::kNormal, .scale = std::sqrt(2 / fan_out)};
  }
  const bool one = name.ends_with(".weight") || name.ends_with(".running_var");
  return {.scale = one ? 1.0 : 0.0};
}

}  // namespace retina
