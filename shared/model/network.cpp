#include "shared/model/network.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/model/network_shape.h"
#include "shared/model/tensor_names.h"
#include "shared/numeric/random.h"

namespace retina {
namespace {

constexpr std::int64_t kGrain = 1 << 14;  // elements a thread draws at a time

// Returns a tensor's initial value in f64; the caller converts it.
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

constexpr const char* kHint =
    "the file holds another architecture: compare backbone, classes, norm, head norm and P6";

std::string shape_text(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

}  // namespace

Network::Network(const ModelConfig& config, NetworkNames names)
    : config_(config), names_(std::move(names)) {
  config_.validate();  // before any layer is built: a bad value is reported as the user's
}

// Changes tensors in place, since the layers hold the same ones.
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

StartValue body_start_value(const std::string& name, const at::Tensor& like) {
  if (like.dim() == 4) {
    const auto fan_out = static_cast<double>(like.size(0) * like.size(2) * like.size(3));
    return {.kind = StartValue::Kind::kNormal, .scale = std::sqrt(2 / fan_out)};
  }
  const bool one = name.ends_with(".weight") || name.ends_with(".running_var");
  return {.scale = one ? 1.0 : 0.0};
}

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

NamedTensors state_of(const Network& network) {
  NamedTensors state;
  for (const ModelTensor& item : network.tensors()) state.push_back({item.name, item.tensor});
  return state;
}

void load_state(Network& network, const NamedTensors& state, const std::string& source) {
  std::map<std::string, at::Tensor> given;
  for (const auto& [name, tensor] : state) {
    if (!given.emplace(name, tensor).second) {
      throw Error(ErrorKind::kData, cat(source, ": tensor ", name, " appears twice"));
    }
  }
  const NamedTensors own = state_of(network);
  std::set<std::string> known;
  // All checks come before the first copy: a refused file leaves the model as it was.
  for (const auto& [name, tensor] : own) {
    known.insert(name);
    const auto found = given.find(name);
    if (found == given.end()) {
      if (is_batch_counter(name)) continue;
      throw Error(ErrorKind::kData, cat(source, ": tensor ", name, " is missing"), kHint);
    }
    if (found->second.sizes() != tensor.sizes()) {
      throw Error(ErrorKind::kData,
                  cat(source, ": tensor ", name, " has another shape (got ",
                      shape_text(found->second), ", want ", shape_text(tensor), ")"),
                  kHint);
    }
  }
  for (const auto& [name, tensor] : given) {
    if (!known.contains(name) && !is_batch_counter(name)) {
      throw Error(ErrorKind::kData, cat(source, ": tensor ", name, " is not part of the model"),
                  kHint);
    }
  }
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : own) {
    const auto found = given.find(name);
    if (found != given.end()) tensor.copy_(found->second);
  }
}

void freeze_backbone(Network& network, int trainable_layers) {
  constexpr int kLayerCount = 5;
  if (trainable_layers < 0 || trainable_layers > kLayerCount) {
    throw Error(ErrorKind::kUsage,
                cat("trainable layers: out of range (got ", trainable_layers, ", want 0 to 5)"));
  }
  const std::string& prefix = network.body_prefix();
  if (network.config().backbone == kCifarCnn) return;  // cifar-cnn has no stages
  const auto stages = backbone_stages(network.config().backbone);
  std::vector<std::string> learning;  // prefixes of their names
  for (std::size_t i = stages.size() - static_cast<std::size_t>(trainable_layers);
       i < stages.size(); ++i) {
    learning.insert(learning.end(), stages[i].begin(), stages[i].end());
  }
  for (const auto& [name, tensor, is_parameter] : network.tensors()) {
    if (!is_parameter || !name.starts_with(prefix)) continue;
    const std::string part = name.substr(prefix.size());
    if (name.starts_with(network.class_layer())) continue;
    // A ResNet's bn1 belongs to no stage: it learns only if everything does, as in torchvision.
    const bool learns =
        trainable_layers == kLayerCount ||
        std::any_of(learning.begin(), learning.end(),
                    [&](const std::string& stage) { return part.starts_with(stage); });
    tensor.set_requires_grad(learns);
  }
}

void use_channels_last(Network& network) {
  const at::NoGradGuard no_grad;
  for (const ModelTensor& item : network.tensors()) {
    if (item.is_parameter && item.tensor.dim() == 4) {
      item.tensor.set_data(item.tensor.contiguous(at::MemoryFormat::ChannelsLast));
    }
  }
}

}  // namespace retina
