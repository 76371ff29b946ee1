#include "tests/convert/random_checkpoint.h"

#include <ATen/ops/clone.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <map>
#include <tuple>

#include "shared/base/cat.h"
#include "shared/model/classifier.h"
#include "shared/model/network_shape.h"
#include "shared/model/retinanet.h"
#include "shared/numeric/random.h"
#include "tests/convert/pth_writer.h"

namespace retina {
namespace {

// value = low + (high - low) * random, element by element.
void fill(const at::Tensor& tensor, double low, double high, const RandomStream& random) {
  const at::Tensor flat = tensor.view({-1});
  for (std::int64_t i = 0; i < flat.size(0); ++i) {
    flat.data_ptr<float>()[i] =
        static_cast<float>(low + (high - low) * random.unit(static_cast<std::uint64_t>(i)));
  }
}

Checkpoint drawn(const ModelConfig& config, std::uint64_t seed, double head_spread) {
  const torch::autograd::AutoGradMode no_gradient(false);
  std::unique_ptr<Network> model;
  if (config.task == Task::kDetection) {
    model = std::make_unique<RetinaNet>(config);
  } else {
    model = make_classifier(config);
  }
  initialise(*model, seed);
  Checkpoint checkpoint;
  std::uint32_t stream = 0;
  for (const auto& [name, tensor] : state_of(*model)) {
    const RandomStream random{.seed = seed, .use = RandomUse::kTest, .stream = stream++};
    const bool is_class_layer = name.starts_with(model->class_layer());
    const bool is_norm = tensor.dim() == 1 && !is_class_layer;
    if (name.ends_with("running_var")) {
      fill(tensor, 0.5, 2.0, random);
    } else if (name.ends_with("running_mean")) {
      fill(tensor, -0.2, 0.2, random);
    } else if (is_norm && name.ends_with(".weight")) {
      fill(tensor, 0.4, 0.8, random);
    } else if (is_norm && name.ends_with(".bias")) {
      fill(tensor, -0.1, 0.1, random);
    } else if (is_class_layer && name.ends_with(".weight")) {
      tensor.mul_(config.task == Task::kDetection ? 8 * head_spread : head_spread);
    } else if (is_class_layer && config.task == Task::kClassification) {
      tensor.mul_(head_spread);
    } else if (is_class_layer && head_spread > 0) {
      tensor.fill_(-2);
    }
    checkpoint.model.push_back({name, tensor});
  }
  checkpoint.config_json = cat(R"({"model":)", config.to_json(), R"(,"train":{}})");
  checkpoint.trainer_json = R"({"step":0,"epoch":0})";
  for (int label = 0; label < config.class_count; ++label) {
    checkpoint.categories.push_back(
        {.id = 10 * label + 1, .name = cat("class ", label), .supercategory = "test"});
  }
  return checkpoint;
}

}  // namespace

ModelConfig small_config() {
  ModelConfig config;
  config.backbone = "resnet18";
  config.class_count = 3;
  config.anchor_sizes = {16, 32, 64, 128, 256};
  config.min_side_px = 128;
  config.max_side_px = 192;
  return config;
}

ModelConfig small_classifier_config(const std::string& backbone) {
  ModelConfig config;
  config.task = Task::kClassification;
  config.backbone = backbone;
  config.class_count = 3;
  config.min_side_px = backbone == kCifarCnn ? 32 : 64;
  config.max_side_px = backbone == kCifarCnn ? 32 : 73;
  return config;
}

Checkpoint random_checkpoint(const ModelConfig& config, std::uint64_t seed, double head_spread) {
  static std::map<std::tuple<std::string, std::uint64_t, double>, Checkpoint> known;
  auto [place, is_new] = known.try_emplace({config.to_json(), seed, head_spread});
  if (is_new) place->second = drawn(config, seed, head_spread);
  Checkpoint copy = place->second;
  for (auto& [name, tensor] : copy.model) tensor = tensor.detach().clone();
  return copy;
}

std::string pth_of(const NamedTensors& tensors, bool legacy) {
  PickleText pickle;
  pickle.global("collections", "OrderedDict").op(")R(");
  NamedBytes storages;
  std::vector<LegacyStorage> legacy_storages;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor dense = tensor.contiguous();
    const bool is_float = dense.scalar_type() == at::kFloat;
    const std::string key = std::to_string(storages.size());
    pickle.text(name).tensor(is_float ? "FloatStorage" : "LongStorage", key, dense.numel(), 0,
                             dense.sizes().vec(), dense.strides().vec(), legacy);
    storages.emplace_back(key,
                          std::string(static_cast<const char*>(dense.data_ptr()), dense.nbytes()));
    if (legacy) {
      legacy_storages.push_back({.key = key,
                                 .bytes = storages.back().second,
                                 .element_bytes = static_cast<std::size_t>(dense.element_size())});
    }
  }
  const std::string text = pickle.op("u").stop();
  return legacy ? pth_legacy(text, legacy_storages) : pth_zip(text, storages);
}

}  // namespace retina
