#include "train/step/weight_average.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "shared/model/retinanet.h"

#include <algorithm>
#include <vector>

namespace retina {
namespace {

RetinaNet small_model() {
  ModelConfig config;
  config.backbone = "resnet18";
  config.class_count = 2;
  RetinaNet model(config);
  initialise(model, 3);
  return model;
}

at::Tensor named(const NamedTensors& state, const std::string& name) {
  for (const auto& [key, tensor] : state) {
    if (key == name) return tensor;
  }
  ADD_FAILURE() << name << " is not there";
  return {};
}

constexpr const char* kWeight = "backbone.body.conv1.weight";

TEST(WeightAverage, FollowsTheFormula) {
  const at::NoGradGuard no_grad;
  RetinaNet model = small_model();
  WeightAverage average(model, 0.5);
  const at::Tensor weight = named(state_of(model), kWeight);
  at::Tensor expected = weight.to(at::kDouble);
  for (int step = 1; step <= 20; ++step) {
    weight.add_(0.25 * step);
    average.update(step);
    const double decay = std::min(0.5, (1.0 + step) / (10.0 + step));
    expected = decay * expected + (1 - decay) * weight.to(at::kDouble);
  }
  EXPECT_TRUE(at::allclose(named(average.state(), kWeight).to(at::kDouble), expected, 1e-5, 1e-5));
}

TEST(WeightAverage, LeavesTheWeightsAsTheyWereAfterAScope) {
  const at::NoGradGuard no_grad;
  RetinaNet model = small_model();
  WeightAverage average(model, 0.9);
  const at::Tensor weight = named(state_of(model), kWeight);
  weight.mul_(2);
  average.update(1000);
  const at::Tensor before = weight.clone(), mean = named(average.state(), kWeight).clone();
  ASSERT_FALSE(at::equal(before, mean));
  {
    const AverageScope scope(&average);
    EXPECT_TRUE(at::equal(weight, mean));
  }
  EXPECT_TRUE(at::equal(weight, before));
  EXPECT_TRUE(at::equal(named(average.state(), kWeight), mean));
}

TEST(WeightAverage, HoldsRunningStatisticsButNoCounters) {
  RetinaNet model = small_model();
  const WeightAverage average(model, 0.9);
  bool has_mean = false;
  for (const auto& [name, tensor] : average.state()) {
    has_mean = has_mean || name.ends_with("running_mean");
    EXPECT_FALSE(name.ends_with("num_batches_tracked"));
  }
  EXPECT_TRUE(has_mean);
}

}  // namespace
}  // namespace retina
