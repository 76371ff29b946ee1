#include "convert/script/weights.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/rsqrt.h>

#include "shared/base/error.h"

namespace retina {
namespace {

at::Tensor stored(const at::Tensor& tensor) {
  return tensor.to(at::kFloat).contiguous();
}

}  // namespace

Weights::Weights(const NamedTensors& state) {
  for (const auto& [name, tensor] : state) tensors_.emplace(name, tensor.detach().cpu());
}

at::Tensor Weights::at(const std::string& name) const {
  const auto found = tensors_.find(name);
  RETINA_CHECK(found != tensors_.end(), name);
  return found->second;
}

ConvWeights Weights::conv(const std::string& prefix) const {
  return {.weight = stored(at(prefix + ".weight")), .bias = stored(at(prefix + ".bias"))};
}

ConvWeights Weights::folded(const std::string& conv, const std::string& norm, double eps) const {
  const auto f64 = [&](const std::string& name) { return at(name).to(at::kDouble); };
  const at::Tensor scale =
      f64(norm + ".weight") * at::rsqrt(f64(norm + ".running_var") + eps);  // [out]
  return {.weight = stored(f64(conv + ".weight") * scale.view({-1, 1, 1, 1})),
          .bias = stored(f64(norm + ".bias") - f64(norm + ".running_mean") * scale)};
}

}  // namespace retina
