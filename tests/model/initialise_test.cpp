#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <optional>
#include <set>

#include "shared/base/hash.h"
#include "tests/model/small_model.h"

namespace retina {
namespace {

at::Tensor find(const RetinaNet& model, const std::string& wanted) {
  for (const auto& [name, tensor] : state_of(model)) {
    if (name == wanted) return tensor.detach().to(at::kDouble);
  }
  ADD_FAILURE() << wanted;
  return {};
}

class Initialise : public testing::Test {
 protected:
  static void SetUpTestSuite() { initialise(model_.emplace(small_config()), 7); }
  static void TearDownTestSuite() { model_.reset(); }
  static inline std::optional<RetinaNet> model_{};
};

TEST_F(Initialise, BackboneIsNormalWithTheVarianceOfItsFanOut) {
  const at::Tensor weight = find(*model_, "backbone.body.layer4.1.conv2.weight");
  const double expected = std::sqrt(2.0 / (512 * 9));
  EXPECT_NEAR(weight.std().item<double>() / expected, 1, 0.01);
  EXPECT_NEAR(weight.mean().item<double>() / expected, 0, 0.01);
  const double kurtosis = (weight / weight.std()).pow(4).mean().item<double>();
  EXPECT_NEAR(kurtosis, 3, 0.05);  // a uniform has 1.8
}

TEST_F(Initialise, PyramidIsUniformWithTheBoundOfItsFanIn) {
  const at::Tensor weight = find(*model_, "backbone.fpn.layer_blocks.1.0.weight");
  const double bound = std::sqrt(3.0 / (256 * 9));
  EXPECT_LE(weight.abs().max().item<double>(), bound);
  EXPECT_GT(weight.abs().max().item<double>(), 0.999 * bound);
  EXPECT_NEAR(weight.std().item<double>() / (bound / std::sqrt(3.0)), 1, 0.01);
  EXPECT_EQ(find(*model_, "backbone.fpn.layer_blocks.1.0.bias").abs().sum().item<double>(), 0);
}

TEST_F(Initialise, HeadsAreSmallNormalAndClassesStartAtThePriorProbability) {
  const at::Tensor weight = find(*model_, "head.regression_head.conv.2.0.weight");
  EXPECT_NEAR(weight.std().item<double>() / 0.01, 1, 0.01);
  const at::Tensor bias = find(*model_, "head.classification_head.cls_logits.bias");
  EXPECT_NEAR(torch::sigmoid(bias).max().item<double>(), 0.01, 1e-6);
  EXPECT_NEAR(torch::sigmoid(bias).min().item<double>(), 0.01, 1e-6);
}

TEST_F(Initialise, NormsStartAsIdentity) {
  EXPECT_EQ((find(*model_, "backbone.body.bn1.weight") - 1).abs().sum().item<double>(), 0);
  EXPECT_EQ((find(*model_, "backbone.body.bn1.running_var") - 1).abs().sum().item<double>(), 0);
  EXPECT_EQ(find(*model_, "backbone.body.bn1.running_mean").abs().sum().item<double>(), 0);
  EXPECT_EQ((find(*model_, "head.regression_head.conv.2.1.weight") - 1).abs().sum().item<double>(),
            0);
}

TEST_F(Initialise, ATensorDependsOnSeedAndNameAlone) {
  ModelConfig other_config = small_frozen_config();
  other_config.class_count = 9;
  RetinaNet other(other_config);
  use_channels_last(other);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  initialise(other, 7);
  at::set_num_threads(threads);
  const std::string name = "backbone.body.layer3.0.conv1.weight";
  EXPECT_TRUE(find(other, name).equal(find(*model_, name)));
  initialise(other, 8);
  EXPECT_FALSE(find(other, name).equal(find(*model_, name)));
}

TEST_F(Initialise, InitialValueEqualsWhatTheWholeModelGets) {
  const std::string name = "head.classification_head.cls_logits.weight";
  EXPECT_TRUE(initial_value(*model_, name, 7).to(at::kDouble).equal(find(*model_, name)));
}

TEST(InitialiseNames, NoTwoTensorsShareAStream) {
  // The deepest of each family.
  for (const char* backbone : {"resnet152", "regnet_x_3_2gf", "mobilenet_v3_large"}) {
    ModelConfig config = small_config();
    config.backbone = backbone;
    std::set<std::uint32_t> streams;
    const NamedTensors state = state_of(RetinaNet(config));
    for (const auto& [name, tensor] : state) streams.insert(static_cast<std::uint32_t>(xxh3(name)));
    EXPECT_EQ(streams.size(), state.size()) << backbone;
  }
}

}  // namespace
}  // namespace retina
