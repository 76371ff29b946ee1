#include <gtest/gtest.h>
#include <torch/types.h>

#include <set>

#include "shared/base/error.h"
#include "shared/model/tensor_names.h"
#include "tests/model/small_model.h"
#include "tests/support/refusal.h"

namespace retina {
namespace {

NamedTensors copy_of(const RetinaNet& model) {
  NamedTensors state = state_of(model);
  for (auto& [name, tensor] : state) tensor = tensor.detach().clone();
  return state;
}

bool equal(const RetinaNet& model, const NamedTensors& state) {
  const NamedTensors own = state_of(model);
  if (own.size() != state.size()) return false;
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i].name != state[i].name || !own[i].tensor.equal(state[i].tensor)) return false;
  }
  return true;
}

std::string refusal(RetinaNet& model, const NamedTensors& state) {
  return refusal_of(ErrorKind::kData, [&] { load_state(model, state, "old.pt"); });
}

TEST(LoadState, RestoresEveryTensor) {
  RetinaNet first(small_config()), second(small_config());
  initialise(first, 1);
  initialise(second, 2);
  const NamedTensors state = copy_of(first);
  EXPECT_FALSE(equal(second, state));
  load_state(second, state, "old.pt");
  EXPECT_TRUE(equal(second, state));
}

TEST(LoadState, BatchCountersMayComeOrBeMissing) {
  RetinaNet trained(small_config());
  initialise(trained, 1);
  ModelConfig config = small_config();
  config.norm = Norm::kFrozen;
  RetinaNet frozen(config);
  load_state(frozen, copy_of(trained), "trained.pt");
  load_state(trained, copy_of(frozen), "frozen.pt");
  EXPECT_EQ(state_of(frozen).front().tensor.sum().item<float>(),
            state_of(trained).front().tensor.sum().item<float>());
}

TEST(LoadState, NamesTheTensorThatIsMissingUnexpectedTwiceOrMisshapen) {
  RetinaNet model(small_config());
  const NamedTensors before = copy_of(model);

  NamedTensors state = copy_of(model);
  state.erase(state.begin());
  EXPECT_EQ(refusal(model, state), "old.pt: tensor backbone.body.conv1.weight is missing");

  state = copy_of(model);
  state.emplace_back("backbone.body.fc.weight", torch::zeros({2}));
  EXPECT_EQ(refusal(model, state),
            "old.pt: tensor backbone.body.fc.weight is not part of the model");

  state = copy_of(model);
  state.push_back(state.front());
  EXPECT_EQ(refusal(model, state), "old.pt: tensor backbone.body.conv1.weight appears twice");

  state = copy_of(model);
  for (auto& [name, tensor] : state) tensor = torch::ones_like(tensor);
  state.back().tensor = torch::zeros({35});
  EXPECT_EQ(refusal(model, state),
            "old.pt: tensor head.regression_head.bbox_reg.bias has another shape (got [35], want "
            "[36])");
  EXPECT_TRUE(equal(model, before));  // a refused state changes nothing
}

std::vector<std::string> learning(const ModelConfig& config, int trainable_layers) {
  RetinaNet model(config);
  freeze_backbone(model, trainable_layers);
  std::vector<std::string> names;
  for (const ModelTensor& item : model.tensors()) {
    if (item.tensor.requires_grad()) names.push_back(item.name);
  }
  return names;
}

TEST(FreezeBackbone, LetsTheLastLayersLearnAndTheStemsNormOnlyWithEverything) {
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const std::string stem = "backbone.body.conv1.weight", norm = "backbone.body.bn1.weight",
                    layer1 = "backbone.body.layer1.0.conv1.weight",
                    layer2 = "backbone.body.layer2.0.downsample.1.bias",
                    layer4 = "backbone.body.layer4.1.bn2.weight",
                    pyramid = "backbone.fpn.extra_blocks.p7.bias";
  const auto three = learning(small_config(), 3);
  EXPECT_FALSE(has(three, stem) || has(three, norm) || has(three, layer1));
  EXPECT_TRUE(has(three, layer2) && has(three, layer4) && has(three, pyramid));
  const auto four = learning(small_config(), 4);
  EXPECT_TRUE(has(four, layer1));
  EXPECT_FALSE(has(four, stem) || has(four, norm));
  const auto five = learning(small_config(), 5);
  EXPECT_TRUE(has(five, stem) && has(five, norm));
  const auto none = learning(small_config(), 0);
  EXPECT_FALSE(has(none, layer4));
  EXPECT_TRUE(has(none, pyramid));
  EXPECT_THROW(learning(small_config(), 6), Error);
}

// By stride: the parts of the body that learn with so many stages.
TEST(FreezeBackbone, EveryFamilyHasFiveStages) {
  const auto parts = [](const std::string& backbone, int trainable_layers) {
    ModelConfig config = small_config();
    config.backbone = backbone;
    std::set<std::string> found;
    for (const std::string& name : learning(config, trainable_layers)) {
      if (!name.starts_with(kBodyPrefix)) continue;
      std::string part = name.substr(kBodyPrefix.size());
      const std::string trunk = "trunk_output.";
      if (part.starts_with(trunk)) part = part.substr(trunk.size());
      found.insert(part.substr(0, part.find('.')));
    }
    return found;
  };
  using Parts = std::set<std::string>;
  EXPECT_EQ(parts("resnext50_32x4d", 1), (Parts{"layer4"}));
  EXPECT_EQ(parts("regnet_x_400mf", 0), Parts{});
  EXPECT_EQ(parts("regnet_x_400mf", 2), (Parts{"block3", "block4"}));
  EXPECT_EQ(parts("regnet_x_400mf", 5), (Parts{"stem", "block1", "block2", "block3", "block4"}));
  const std::string mobile = "mobilenet_v3_large";
  EXPECT_EQ(parts(mobile, 1), (Parts{"13", "14", "15", "16"}));
  EXPECT_EQ(parts(mobile, 3),
            (Parts{"4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"}));
  EXPECT_EQ(parts(mobile, 5).size(), 17U);
  EXPECT_EQ(parts(mobile, 4).size(), 15U);
}

}  // namespace
}  // namespace retina
