#include "shared/model/sync_norm.h"

#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/retinanet.h"
#include "tests/model/small_model.h"
#include "tests/support/ranks/thread_world.h"

namespace retina {
namespace {

constexpr std::int64_t kChannels = 5;
constexpr double kEps = 1e-5;

// Over the threads of a test, and keeps the names.
class TestRankSum : public RankSum {
 public:
  explicit TestRankSum(Communicator& communicator) : communicator_(communicator) {}
  void sum(std::span<double> values, const std::string& what) override {
    names.push_back(what);
    communicator_.all_reduce(values.data(), values.size(), ElementType::kFloat64, ReduceOp::kSum);
  }
  std::vector<std::string> names = {};

 private:
  Communicator& communicator_;
};

// The inputs and results of a layer on one rank, or on all at once.
struct Layer {
  at::Tensor input, output_gradient;  // [N, C, H, W]
  at::Tensor weight, bias, running_mean, running_var;
  at::Tensor output = {};
};

struct Case {
  at::ScalarType type = at::kDouble;
  bool channels_last = false;
  double mean = 0.5, std = 2;
};

std::int64_t images_of(int rank) {
  return (rank + 1) % 3;  // 1, 2, none, 1, ...
}

// Other images and another padded size on every rank.
Layer layer_of(int rank, const Case& shape) {
  torch::manual_seed(static_cast<std::uint64_t>(100 + rank));
  const std::vector<std::int64_t> sizes = {images_of(rank), kChannels, 3 + rank, 4};
  const auto format =
      shape.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  const auto draw = [&] { return torch::randn(sizes, at::kDouble); };
  Layer layer;
  const at::Tensor values = draw() * shape.std + shape.mean;
  layer.input = values.to(shape.type).contiguous(format).requires_grad_();
  layer.output_gradient = draw().to(shape.type).contiguous(format);
  const at::ScalarType kept = shape.type == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor ramp = torch::arange(kChannels, at::kDouble);
  layer.weight = (0.5 + 0.25 * ramp).to(kept).requires_grad_();
  layer.bias = (ramp - 2).to(kept).requires_grad_();
  layer.running_mean = (0.1 * ramp).to(kept);
  layer.running_var = (1 + ramp).to(kept);
  return layer;
}

// [1, C, P, 1]: batch norm sees values of a channel, not where they are.
at::Tensor all_values(const std::vector<Layer>& layers, at::Tensor Layer::*member) {
  std::vector<at::Tensor> parts;
  for (const Layer& layer : layers) {
    const at::Tensor values = (layer.*member).detach().to(at::kDouble);
    parts.push_back(values.permute({1, 0, 2, 3}).reshape({kChannels, -1}));
  }
  return torch::cat(parts, 1).unsqueeze(0).unsqueeze(-1).contiguous();
}

// What one rank with all values computes in f64.
Layer reference_of(const std::vector<Layer>& inputs) {
  Layer all = layer_of(0, {});
  all.input = all_values(inputs, &Layer::input).requires_grad_();
  all.output_gradient = all_values(inputs, &Layer::output_gradient);
  all.output = at::batch_norm(all.input, all.weight, all.bias, all.running_mean, all.running_var,
                              true, 0.1, kEps, false);
  all.output.backward(all.output_gradient);
  return all;
}

double difference(const at::Tensor& got, const at::Tensor& want) {
  const at::Tensor wide = want.detach();
  return ((got.detach().to(at::kDouble) - wide).norm() / wide.norm()).item<double>();
}

// Runs the layer on all ranks and compares with one rank that has all values.
void expect_equal_to_one_rank(int ranks, const Case& shape, double bound) {
  std::vector<Layer> layers(static_cast<std::size_t>(ranks));
  ThreadWorld world({.ring = {.ranks = ranks}});
  const auto outcomes = world.run([&](ThreadRank& comm) {
    TestRankSum sum(comm);
    Layer& layer = layers[static_cast<std::size_t>(comm.rank())];
    layer = layer_of(comm.rank(), shape);
    layer.output = sync_batch_norm(layer.input, layer.weight, layer.bias, layer.running_mean,
                                   layer.running_var, {.ranks = &sum, .name = "bn", .eps = kEps});
    layer.output.backward(layer.output_gradient);
    EXPECT_THAT(sum.names, testing::ElementsAre("bn forward", "bn backward"));
    const auto format = layer.input.suggest_memory_format();
    for (const at::Tensor& like : {layer.output, layer.input.grad()}) {
      EXPECT_EQ(like.scalar_type(), shape.type);
      EXPECT_EQ(like.sizes(), layer.input.sizes());
      EXPECT_TRUE(like.is_contiguous(format));
    }
  });
  for (const auto& outcome : outcomes) ASSERT_EQ(outcome.message, "");

  const Layer want = reference_of(layers);
  EXPECT_LE(difference(all_values(layers, &Layer::output), want.output), bound);
  at::Tensor weight_gradient = torch::zeros_like(want.weight);
  at::Tensor bias_gradient = torch::zeros_like(want.bias);
  for (Layer& layer : layers) {
    weight_gradient += layer.weight.grad();
    bias_gradient += layer.bias.grad();
    EXPECT_LE(difference(layer.running_mean, want.running_mean), bound);
    EXPECT_LE(difference(layer.running_var, want.running_var), bound);
    EXPECT_TRUE(layer.running_mean.equal(layers[0].running_mean));
    EXPECT_TRUE(layer.running_var.equal(layers[0].running_var));
    layer.output = layer.input.grad();
  }
  EXPECT_LE(difference(weight_gradient, want.weight.grad()), bound);
  EXPECT_LE(difference(bias_gradient, want.bias.grad()), bound);
  EXPECT_LE(difference(all_values(layers, &Layer::output), want.input.grad()), bound);
}

TEST(SyncNorm, EqualsOneRankWithAllImages) {
  for (const int ranks : {1, 2, 4}) {
    for (const bool channels_last : {false, true}) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, channels_last " << channels_last);
      expect_equal_to_one_rank(ranks, {.channels_last = channels_last}, 1e-14);
      expect_equal_to_one_rank(ranks, {.type = at::kFloat, .channels_last = channels_last}, 1e-6);
      expect_equal_to_one_rank(ranks, {.type = at::kBFloat16, .channels_last = channels_last},
                               1e-2);
      expect_equal_to_one_rank(ranks, {.type = at::kHalf, .channels_last = channels_last}, 2e-3);
    }
  }
}

// Sums of squares in f32 would leave nothing of a variance of 1 beside a mean of 3000; those in f64
// round it by 3000² · 2^-52 = 2e-9.
TEST(SyncNorm, KeepsTheVarianceBesideALargeMean) {
  expect_equal_to_one_rank(4, {.mean = 3000, .std = 1}, 1e-8);
  expect_equal_to_one_rank(4, {.type = at::kFloat, .mean = 3000, .std = 1}, 2e-3);
}

TEST(SyncNorm, StatisticsStayF32UnderAutocast) {
  std::vector<Layer> layers(2);
  ThreadWorld world({.ring = {.ranks = 2}});
  const auto outcomes = world.run([&](ThreadRank& comm) {
    TestRankSum sum(comm);
    Layer& layer = layers[static_cast<std::size_t>(comm.rank())];
    layer = layer_of(comm.rank(), {.type = at::kBFloat16});
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    layer.output = sync_batch_norm(layer.input, layer.weight, layer.bias, layer.running_mean,
                                   layer.running_var, {.ranks = &sum, .eps = kEps});
    at::autocast::set_autocast_enabled(at::kCPU, false);
  });
  for (const auto& outcome : outcomes) ASSERT_EQ(outcome.message, "");
  const Layer want = reference_of(layers);
  // Inputs are the same bf16 values: only sums of f32 precision come so close.
  EXPECT_LE(difference(layers[1].running_mean, want.running_mean), 1e-6);
  EXPECT_LE(difference(layers[1].running_var, want.running_var), 1e-6);
}

TEST(SyncNorm, LeavesTheStatisticsWhenNoRankHasAnImage) {
  const auto alone = make_self_communicator();
  TestRankSum sum(*alone);
  Layer layer = layer_of(2, {});
  ASSERT_EQ(layer.input.numel(), 0);
  const at::Tensor mean = layer.running_mean.clone(), var = layer.running_var.clone();
  const at::Tensor output = sync_batch_norm(layer.input, layer.weight, layer.bias,
                                            layer.running_mean, layer.running_var, {.ranks = &sum});
  output.sum().backward();
  EXPECT_TRUE(layer.running_mean.equal(mean));
  EXPECT_TRUE(layer.running_var.equal(var));
  EXPECT_TRUE(layer.weight.grad().equal(torch::zeros_like(mean)));
  EXPECT_EQ(sum.names.size(), 2U);
}

TEST(SyncNorm, BackwardIsAloneWhereTheInputNeedsNoGradient) {
  const auto alone = make_self_communicator();
  TestRankSum sum(*alone);
  Layer layer = layer_of(1, {});
  const Layer want = reference_of({layer});
  layer.input = layer.input.detach();
  layer.output = sync_batch_norm(layer.input, layer.weight, layer.bias, layer.running_mean,
                                 layer.running_var, {.ranks = &sum, .eps = kEps});
  layer.output.backward(layer.output_gradient);
  EXPECT_LE(difference(layer.weight.grad(), want.weight.grad()), 1e-14);
  EXPECT_EQ(sum.names.size(), 1U);
}

// Whoever catches it must know that a rank was lost, not that autograd failed.
TEST(SyncNorm, ALostRanksErrorComesThroughBackward) {
  class LostRank : public RankSum {
   public:
    void sum(std::span<double>, const std::string& what) override {
      if (what == "bn backward") throw Error(ErrorKind::kRankFailure, "rank 1 died");
    }
  };
  LostRank sum;
  Layer layer = layer_of(1, {});
  layer.output = sync_batch_norm(layer.input, layer.weight, layer.bias, layer.running_mean,
                                 layer.running_var, {.ranks = &sum, .name = "bn", .eps = kEps});
  try {
    layer.output.backward(layer.output_gradient);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRankFailure);
  }
}

// Weights that are quick to make: the values do not matter.
void clear(RetinaNet& model) {
  const torch::NoGradGuard no_gradient;
  for (auto& [name, tensor] : state_of(model)) tensor.zero_();
}

TEST(SyncNorm, ModelSharesStatisticsWhileItTrainsOnly) {
  const auto alone = make_self_communicator();
  TestRankSum sum(*alone);
  RetinaNet model(small_config());
  clear(model);
  model.share_statistics(&sum);
  const NamedTensors before = state_of(model);
  const at::Tensor images = torch::zeros({1, 3, 32, 32});
  model.set_training(true);
  model.forward(images);
  EXPECT_THAT(sum.names, testing::SizeIs(20));  // conv1 and 8 blocks of 2, 3 with a projection
  EXPECT_THAT(sum.names, testing::Contains("bn1 forward"));
  EXPECT_THAT(sum.names, testing::Contains("layer2.0.downsample.1 forward"));
  model.set_training(false);
  model.forward(images);
  EXPECT_THAT(sum.names, testing::SizeIs(20));
  model.share_statistics(nullptr);
  model.set_training(true);
  model.forward(images);
  EXPECT_THAT(sum.names, testing::SizeIs(20));
  const NamedTensors after = state_of(model);
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_EQ(after[i].name, before[i].name);

  RetinaNet frozen(small_frozen_config());
  clear(frozen);
  frozen.share_statistics(&sum);
  frozen.forward(images);
  EXPECT_THAT(sum.names, testing::SizeIs(20));
}

}  // namespace
}  // namespace retina
