// The model's tensors by name: listing, loading, freezing, layout; statistics of all ranks.
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/model/retinanet.h"

namespace retina {
namespace {

constexpr const char* kHint =
    "the file holds another architecture: compare backbone, classes, norm, head norm and P6";

std::string shape_text(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

void collect(const torch::nn::Module& module, const std::string& prefix, NamedState& state) {
  for (const auto& item : module.named_parameters(/*recurse=*/false)) {
    state.emplace_back(prefix + item.key(), item.value());
  }
  for (const auto& item : module.named_buffers(/*recurse=*/false)) {
    state.emplace_back(prefix + item.key(), item.value());
  }
  for (const auto& item : module.named_children()) {
    collect(*item.value(), prefix + item.key() + ".", state);
  }
}

bool is_batch_counter(const std::string& name) {
  return name.ends_with(".num_batches_tracked");
}

}  // namespace

NamedState state_of(const RetinaNet& model) {
  NamedState state;
  collect(*model, "", state);
  return state;
}

void load_state(RetinaNet& model, const NamedState& state, const std::string& source) {
  std::map<std::string, at::Tensor> given;
  for (const auto& [name, tensor] : state) {
    if (!given.emplace(name, tensor).second) {
      throw Error(ErrorKind::kData, cat(source, ": tensor ", name, " appears twice"));
    }
  }
  const NamedState own = state_of(model);
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
  const torch::autograd::AutoGradMode no_gradient(false);
  for (const auto& [name, tensor] : own) {
    const auto found = given.find(name);
    if (found != given.end()) at::Tensor(tensor).copy_(found->second);
  }
}

void freeze_backbone(RetinaNet& model, int trainable_layers) {
  constexpr int kLayerCount = 5;
  if (trainable_layers < 0 || trainable_layers > kLayerCount) {
    throw Error(ErrorKind::kUsage,
                cat("trainable layers: out of range (got ", trainable_layers, ", want 0 to 5)"));
  }
  const std::vector<std::string> layers = {"layer4", "layer3", "layer2", "layer1", "conv1"};
  const std::string body = "backbone.body.";
  for (auto& item : model->named_parameters()) {
    const std::string& name = item.key();
    if (!name.starts_with(body)) continue;
    // The stem's norm learns only when everything does, as in torchvision.
    const bool stem_norm = name.starts_with(body + "bn1.");
    const bool learns =
        (stem_norm && trainable_layers == kLayerCount) ||
        std::any_of(layers.begin(), layers.begin() + trainable_layers,
                    [&](const std::string& layer) { return name.starts_with(body + layer + "."); });
    item.value().set_requires_grad(learns);
  }
}

void use_channels_last(RetinaNet& model) {
  const torch::autograd::AutoGradMode no_gradient(false);
  for (auto& item : model->named_parameters()) {
    at::Tensor& parameter = item.value();
    if (parameter.dim() == 4) {
      parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
    }
  }
}

void share_statistics(RetinaNet& model, RankSum* ranks) {
  const std::string body = "backbone.body.";
  for (auto& item : model->named_modules()) {
    auto* const norm = item.value()->as<Norm2dImpl>();
    if (norm == nullptr) continue;
    const std::string& name = item.key();
    norm->share_statistics(ranks, name.starts_with(body) ? name.substr(body.size()) : name);
  }
}

}  // namespace retina
