// Starting weights, drawn from counter-based random numbers.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/random.h"
#include "shared/model/network.h"

namespace retina {
namespace {

constexpr std::int64_t kGrain = 1 << 14;  // elements a thread draws at a time

// In f64; the caller converts.
at::Tensor value_for(const Network& network, const std::string& name, const at::Tensor& like,
                     std::uint64_t seed) {
  const StartValue start = network.start_value(name, like);
  if (start.kind == StartValue::Kind::kConstant) {
    return at::full(like.sizes(), start.scale, at::kDouble);
  }
  const RandomStream stream = {
      .seed = seed, .use = RandomUse::kWeights, .stream = static_cast<std::uint32_t>(xxh3(name))};
  const bool normal = start.kind == StartValue::Kind::kNormal;
  at::Tensor values = at::empty(like.sizes(), at::kDouble);
  double* out = values.data_ptr<double>();
  at::parallel_for(0, values.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto place = static_cast<std::uint64_t>(i);
      out[i] = start.scale * (normal ? stream.normal(place) : 2 * stream.unit(place) - 1);
    }
  });
  return values;
}

}  // namespace

at::Tensor initial_value(const Network& network, const std::string& name, std::uint64_t seed) {
  for (const auto& [own_name, tensor] : state_of(network)) {
    if (own_name == name) return value_for(network, name, tensor, seed).to(tensor.scalar_type());
  }
  throw Error(ErrorKind::kInternal, cat("network: has no tensor named ", name));
}

void initialise(Network& network, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  for (auto& [name, tensor] : state_of(network)) {
    tensor.copy_(value_for(network, name, tensor, seed));
  }
}

}  // namespace retina
