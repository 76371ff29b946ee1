#include "shared/model/retinanet.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <stdexcept>

#include "shared/base/error.h"
#include "shared/model/autocast.h"
#include "shared/model/postprocess.h"
#include "tests/model/small_model.h"
#include "tests/ops/test_tensors.h"
#include "train/step/detection_loss.h"

namespace retina {
namespace {

at::Tensor some_images(PixelSize size) {
  return random_tensor({.seed = 1, .shape = {2, 3, size.height, size.width}, .low = -2, .high = 2});
}

at::Tensor tensor_of(const RetinaNet& model, const std::string& name) {
  for (const ModelTensor& item : model.tensors()) {
    if (item.name == name) return item.tensor;
  }
  throw std::out_of_range(name);
}

TEST(RetinaNet, HasOneRowAnAnchorForEveryBackboneFamily) {
  for (const char* backbone :
       {"resnet18", "resnet50", "resnext50_32x4d", "regnet_x_400mf", "mobilenet_v3_large"}) {
    ModelConfig config = small_config();
    config.backbone = backbone;
    RetinaNet model(config);
    const torch::NoGradGuard no_gradient;
    const PixelSize size = {.height = 64, .width = 96};
    const HeadOutputs outputs = model.forward(some_images(size).to(at::kFloat));
    const std::int64_t anchors = anchors_for(config, size).size(0);
    EXPECT_EQ(all_levels(outputs.logits).sizes(), (std::vector<std::int64_t>{2, anchors, 2}))
        << backbone;
    EXPECT_EQ(all_levels(outputs.deltas).sizes(), (std::vector<std::int64_t>{2, anchors, 4}))
        << backbone;
  }
}

TEST(RetinaNet, HasTheWidthAndDepthOfItsConfiguration) {
  ModelConfig config = small_config();
  config.fpn_channels = 64;
  config.head_convs = 1;
  RetinaNet model(config);
  EXPECT_EQ(tensor_of(model, "backbone.fpn.inner_blocks.2.0.weight").sizes(),
            (std::vector<std::int64_t>{64, 512, 1, 1}));
  EXPECT_EQ(tensor_of(model, "backbone.fpn.extra_blocks.p6.weight").sizes(),
            (std::vector<std::int64_t>{64, 512, 3, 3}));
  EXPECT_EQ(tensor_of(model, "head.classification_head.conv.0.1.weight").size(0), 64);
  EXPECT_EQ(tensor_of(model, "head.regression_head.bbox_reg.weight").size(1), 64);
  EXPECT_THROW(tensor_of(model, "head.regression_head.conv.1.0.weight"), std::out_of_range);
  const torch::NoGradGuard no_gradient;
  const HeadOutputs outputs = model.forward(some_images({64, 96}).to(at::kFloat));
  EXPECT_EQ(all_levels(outputs.logits).size(1), anchors_for(config, {64, 96}).size(0));
}

TEST(RetinaNet, HasOneAnchorALocationWhereItsConfigurationSaysSo) {
  ModelConfig config = small_config();
  config.anchors_per_location = 1;
  RetinaNet model(config);
  EXPECT_EQ(tensor_of(model, "head.classification_head.cls_logits.weight").size(0),
            config.class_count);
  EXPECT_EQ(tensor_of(model, "head.regression_head.bbox_reg.weight").size(0), 4);
  const at::Tensor anchors = anchors_for(config, {64, 96});
  EXPECT_EQ(anchors_for(small_config(), {64, 96}).size(0), 9 * anchors.size(0));
  const torch::NoGradGuard no_gradient;
  const HeadOutputs outputs = model.forward(some_images({64, 96}).to(at::kFloat));
  EXPECT_EQ(all_levels(outputs.logits).size(1), anchors.size(0));
  EXPECT_EQ(all_levels(outputs.deltas).size(1), anchors.size(0));
}

// The smallest levels have sides of one and two pixels, where memory was left unwritten: it is full
// of NaN here.
TEST(RetinaNet, InBf16IsNearF32WhereLevelsAreThin) {
  const ModelConfig config = small_config();
  for (const PixelSize size : {PixelSize{.height = 64, .width = 64},
                               {.height = 256, .width = 64},
                               {.height = 256, .width = 128},
                               {.height = 64, .width = 256}}) {
    const auto gradients = [&](Precision precision) {
      RetinaNet model(config);
      initialise(model, 1);
      use_channels_last(model);
      for (std::int64_t values = 16; values <= 1 << 20; values *= 2) {
        (void)torch::full({values}, std::nan(""));
      }
      at::Tensor sum;
      {
        const AutocastScope autocast(precision, at::kCPU);
        const HeadOutputs outputs = model.forward(some_images(size).to(at::kFloat));
        sum = all_levels(outputs.deltas).to(at::kFloat).square().sum();
      }
      sum.backward();
      return std::vector{sum.detach(),
                         tensor_of(model, "backbone.fpn.extra_blocks.p6.weight").grad(),
                         tensor_of(model, "backbone.fpn.extra_blocks.p7.weight").grad()};
    };
    const auto f32 = gradients(Precision::kFp32), bf16 = gradients(Precision::kBf16);
    // Near enough for random weights and the batch norm of two images; NaN is far away.
    for (std::size_t i = 0; i < f32.size(); ++i) {
      EXPECT_LT((bf16[i] - f32[i]).norm().item<double>(), f32[i].norm().item<double>())
          << i << " " << size.height << "x" << size.width;
    }
  }
}

TEST(RetinaNet, RefusesAnUnknownBackbone) {
  ModelConfig config = small_config();
  config.backbone = "vgg16";
  EXPECT_THROW(RetinaNet{config}, Error);
}

TEST(RetinaNet, ChannelsLastChangesLayoutAndNotResults) {
  RetinaNet plain(small_config()), last(small_config());
  initialise(plain, 1);
  load_state(last, state_of(plain), "plain");
  use_channels_last(last);
  for (RetinaNet* one : {&plain, &last}) one->to(at::kDouble);
  const at::Tensor images = some_images({.height = 64, .width = 32});
  const auto outputs_of = [&](const RetinaNet& model) {
    const HeadOutputs outputs = model.forward(images);
    return torch::cat({all_levels(outputs.logits), all_levels(outputs.deltas)}, 2);
  };
  const at::Tensor a = outputs_of(plain), b = outputs_of(last);
  EXPECT_TRUE(a.allclose(b, 1e-9, 1e-10));
  a.square().sum().backward();
  b.square().sum().backward();
  for (const auto& [name, parameter, is_parameter] : last.tensors()) {
    if (!is_parameter) continue;
    if (parameter.dim() == 4) {
      EXPECT_TRUE(parameter.is_contiguous(at::MemoryFormat::ChannelsLast)) << name;
    }
    const at::Tensor expected = tensor_of(plain, name).grad();
    EXPECT_LE((parameter.grad() - expected).norm().item<double>(),
              1e-8 * (1 + expected.norm().item<double>()))
        << name;
  }
}

TEST(RetinaNet, StatisticsMoveInTrainingModeAlone) {
  RetinaNet model(small_config());
  initialise(model, 1);
  const torch::NoGradGuard no_gradient;
  const at::Tensor images = some_images({.height = 32, .width = 32}).to(at::kFloat);
  const auto mean = [&] { return tensor_of(model, "backbone.body.bn1.running_mean").clone(); };
  const at::Tensor before = mean();
  model.set_training(false);
  model.forward(images);
  EXPECT_TRUE(mean().equal(before));
  model.set_training(true);
  model.forward(images);
  EXPECT_FALSE(mean().equal(before));
}

// Start weights let activations of a frozen norm grow and those of the heads vanish, and
// differences of such a loss are all rounding.
void keep_signals_level(RetinaNet& model) {
  const torch::NoGradGuard no_gradient;
  for (auto& [name, tensor] : state_of(model)) {
    if (name.starts_with("backbone.body.") && tensor.dim() == 1 && name.ends_with(".weight")) {
      tensor.fill_(0.5);
    }
    if (name.starts_with("head.") && tensor.dim() == 4) tensor.mul_(3);
    if (name.ends_with("cls_logits.bias")) tensor.zero_();  // far from 0, background hardly counts
  }
}

// The loss of a batch of two as a function of one parameter's element; the rest of the chain
// (anchors, matching, both losses, both heads, pyramid, backbone) is differentiated by hand-written
// code and autograd together.
class WholeModelGradient : public testing::TestWithParam<bool> {};

TEST_P(WholeModelGradient, EqualsCentralDifferences) {
  RetinaNet model(GetParam() ? small_frozen_config() : small_config());
  initialise(model, 5);
  model.to(at::kDouble);
  keep_signals_level(model);
  const PixelSize size = {.height = 64, .width = 64};
  const at::Tensor images = some_images(size);
  const at::Tensor anchors = anchors_for(model.config(), size, at::kDouble);
  const std::vector<BoxTargets> targets = {
      {.boxes =
           torch::tensor({4.0, 6.0, 40.0, 50.0, 30.0, 20.0, 60.0, 44.0}, at::kDouble).view({2, 4}),
       .labels = torch::tensor({0L, 1L}),
       .counts = true},
      {.boxes = torch::zeros({0, 4}, at::kDouble),
       .labels = torch::zeros({0}, at::kLong),
       .counts = true}};
  const auto loss_now = [&] {
    return detection_loss(model.forward(images), anchors, batch_of(targets), LossOptions(), 2);
  };
  loss_now().backward();
  const auto loss = [&] {
    const DetectionLoss parts = loss_now();
    return (parts.classification + parts.box_regression).item<double>();
  };
  const torch::NoGradGuard no_gradient;
  for (const char* name :
       {"backbone.body.conv1.weight", "backbone.body.layer2.0.downsample.0.weight",
        "backbone.fpn.inner_blocks.1.0.weight", "backbone.fpn.extra_blocks.p6.weight",
        "head.classification_head.conv.1.0.weight", "head.regression_head.bbox_reg.bias"}) {
    at::Tensor parameter = tensor_of(model, name);
    const at::Tensor gradient = parameter.grad().reshape(-1);
    // The element with the largest gradient: far above the rounding of the differences.
    const auto place = gradient.abs().argmax().item<std::int64_t>();
    at::Tensor element = parameter.view(-1)[place];
    const double middle = element.item<double>(), step = 1e-6;
    element.fill_(middle + step);
    const double above = loss();
    element.fill_(middle - step);
    const double below = loss();
    element.fill_(middle);
    const double numeric = (above - below) / (2 * step), analytic = gradient[place].item<double>();
    // The last term is the rounding of a loss near 1 divided by the step.
    EXPECT_NEAR(numeric, analytic, 1e-4 * std::abs(analytic) + 1e-9) << name;
    EXPECT_GT(std::abs(analytic), 1e-6) << name << ": too small to test anything";
  }
}

INSTANTIATE_TEST_SUITE_P(, WholeModelGradient, testing::Bool(), [](const auto& case_info) {
  return std::string(case_info.param ? "FrozenNorm" : "BatchNorm");
});

}  // namespace
}  // namespace retina
