// Starting weights: torchvision's distributions, drawn from counter-based random numbers.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <cmath>
#include <string>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/random.h"
#include "shared/model/retinanet.h"
#include "shared/model/tensor_names.h"

namespace retina {
namespace {

constexpr double kHeadStd = 0.01;         // Lin et al. 2017, 4.1
constexpr std::int64_t kGrain = 1 << 14;  // elements a thread draws at a time

enum class Draw { kNormal, kUniform };

// scale * normal, or uniform in [-scale, scale).
at::Tensor draw(at::IntArrayRef shape, Draw kind, double scale, const RandomStream& stream) {
  at::Tensor values = at::empty(shape, at::kDouble);
  double* out = values.data_ptr<double>();
  at::parallel_for(0, values.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto place = static_cast<std::uint64_t>(i);
      out[i] = scale * (kind == Draw::kNormal ? stream.normal(place) : 2 * stream.unit(place) - 1);
    }
  });
  return values;
}

double constant_for(const std::string& name) {
  if (name == kClassLayerPrefix + "bias") {
    return -std::log((1 - kPriorProbability) / kPriorProbability);
  }
  const bool one = name.ends_with(".weight") || name.ends_with(".running_var");
  return one ? 1 : 0;
}

// In f64; the caller converts.
at::Tensor value_for(const std::string& name, const at::Tensor& like, std::uint64_t seed) {
  if (like.dim() != 4) return at::full(like.sizes(), constant_for(name), at::kDouble);
  const RandomStream stream = {
      .seed = seed, .use = RandomUse::kWeights, .stream = static_cast<std::uint32_t>(xxh3(name))};
  const auto kernel_area = static_cast<double>(like.size(2) * like.size(3));
  if (name.starts_with(kBodyPrefix)) {  // He et al. 2015, fan out, for relu
    const double fan_out = static_cast<double>(like.size(0)) * kernel_area;
    return draw(like.sizes(), Draw::kNormal, std::sqrt(2 / fan_out), stream);
  }
  if (name.starts_with(kFpnPrefix)) {  // the same paper's uniform, fan in, linear
    const double fan_in = static_cast<double>(like.size(1)) * kernel_area;
    return draw(like.sizes(), Draw::kUniform, std::sqrt(3 / fan_in), stream);
  }
  return draw(like.sizes(), Draw::kNormal, kHeadStd, stream);
}

}  // namespace

at::Tensor initial_value(const RetinaNet& model, const std::string& name, std::uint64_t seed) {
  for (const auto& [own_name, tensor] : state_of(model)) {
    if (own_name == name) return value_for(name, tensor, seed).to(tensor.scalar_type());
  }
  throw Error(ErrorKind::kInternal, cat("model: has no tensor named ", name));
}

void initialise(RetinaNet& model, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  for (auto& [name, tensor] : state_of(model)) tensor.copy_(value_for(name, tensor, seed));
}

}  // namespace retina
