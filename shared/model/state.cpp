// A network's tensors by name: listing, loading, freezing, layout.
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/model/network.h"
#include "shared/model/tensor_names.h"

namespace retina {
namespace {

constexpr const char* kHint =
    "the file holds another architecture: compare backbone, classes, norm, head norm and P6";

std::string shape_text(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

}  // namespace

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
  const std::vector<std::string> layers = {"layer4", "layer3", "layer2", "layer1", "conv1"};
  for (const auto& [name, tensor, is_parameter] : network.tensors()) {
    if (!is_parameter || !name.starts_with(prefix)) continue;
    const std::string part = name.substr(prefix.size());
    if (name.starts_with(network.class_layer())) continue;
    // The stem's norm learns only when everything does, as in torchvision.
    const bool learns =
        trainable_layers == kLayerCount ||
        std::any_of(layers.begin(), layers.begin() + trainable_layers,
                    [&](const std::string& layer) { return part.starts_with(layer + "."); });
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
