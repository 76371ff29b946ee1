#include "train/step/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "shared/base/error.h"
#include "shared/comm/communicator.h"
#include "train/reduce/gradient_buckets.h"

namespace retina {
namespace {

// Textbook updates on scalars in f64: what the fused kernels must agree with.
struct Scalar {
  double w = 0, first = 0, second = 0;
};

double gradient_at(int step, int i) {
  return std::sin(step * 1.7 + i);
}

Scalar reference(const OptimizerOptions& o, double lr, double decay, Scalar s, double g, int t) {
  if (o.kind == OptimizerKind::kSgd) {
    g += decay * s.w;
    s.first = o.momentum * s.first + g;
    s.w -= lr * s.first;
    return s;
  }
  if (o.kind == OptimizerKind::kRmsprop) {
    g += decay * s.w;
    s.second = o.rho * s.second + (1 - o.rho) * g * g;
    s.w -= lr * g / (std::sqrt(s.second) + o.rmsprop_epsilon);
    return s;
  }
  if (o.kind == OptimizerKind::kAdam) {
    g += decay * s.w;
  } else {
    s.w -= lr * decay * s.w;
  }
  s.first = o.beta1 * s.first + (1 - o.beta1) * g;
  s.second = o.beta2 * s.second + (1 - o.beta2) * g * g;
  const double m = s.first / (1 - std::pow(o.beta1, t)), v = s.second / (1 - std::pow(o.beta2, t));
  s.w -= lr * m / (std::sqrt(v) + o.epsilon);
  return s;
}

class OptimizerKinds : public testing::TestWithParam<OptimizerKind> {};

TEST_P(OptimizerKinds, FollowThePublishedUpdate) {
  const OptimizerOptions options{
      .kind = GetParam(), .weight_decay = 0.05, .norm_weight_decay = 0.0};
  const at::Tensor conv = at::full({2, 1, 1, 1}, 0.5, at::kFloat).requires_grad_();
  const at::Tensor norm = at::full({2}, 1.0, at::kFloat).requires_grad_();
  const NamedTensors parameters = {{"c.weight", conv}, {"n.weight", norm}};
  const auto comm = make_self_communicator();
  GradientBuckets buckets(parameters, {}, *comm);
  Optimizer optimizer(parameters, options);
  std::vector<Scalar> expected = {{.w = 0.5}, {.w = 0.5}, {.w = 1}, {.w = 1}};
  for (int step = 1; step <= 10; ++step) {
    for (const at::Tensor& value : {conv, norm}) {
      value.mutable_grad() = at::zeros_like(value.detach());
    }
    for (int i = 0; i < 4; ++i) {
      const at::Tensor& target = i < 2 ? conv : norm;
      target.grad().view({-1})[i % 2] = gradient_at(step, i);
      const double decay = i < 2 ? 0.05 : 0.0;
      auto& scalar = expected[static_cast<std::size_t>(i)];
      scalar = reference(options, 0.01, decay, scalar, gradient_at(step, i), step);
    }
    optimizer.step(0.01);
    buckets.zero();
  }
  for (int i = 0; i < 4; ++i) {
    const at::Tensor& target = i < 2 ? conv : norm;
    EXPECT_NEAR(target.detach().view({-1})[i % 2].item<double>(),
                expected[static_cast<std::size_t>(i)].w, 2e-6);
  }
}

TEST_P(OptimizerKinds, ContinueFromTheirStateBitForBit) {
  const OptimizerOptions options{.kind = GetParam()};
  const auto comm = make_self_communicator();
  const auto train = [&](int interrupt_after) {
    at::Tensor weight = at::linspace(-1, 1, 6, at::kFloat).view({2, 3, 1, 1}).requires_grad_();
    auto optimizer = std::make_unique<Optimizer>(NamedTensors{{"w.weight", weight}}, options);
    for (int step = 1; step <= 8; ++step) {
      weight.mutable_grad() = at::full_like(weight.detach(), gradient_at(step, 0));
      optimizer->step(0.1);
      if (step == interrupt_after) {
        auto state = optimizer->state();
        for (auto& item : state) item.tensor = item.tensor.clone();
        optimizer = std::make_unique<Optimizer>(NamedTensors{{"w.weight", weight}}, options);
        optimizer->load_state(state, step, "test");
      }
    }
    return weight.detach();
  };
  EXPECT_TRUE(at::equal(train(0), train(3)));
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerKinds,
                         testing::Values(OptimizerKind::kSgd, OptimizerKind::kAdam,
                                         OptimizerKind::kAdamW, OptimizerKind::kRmsprop));

// The fused kernels take momentum buffers only with a momentum above 0.
TEST(Optimizer, SgdWithoutMomentumHasNoBuffers) {
  const at::Tensor weight = at::full({2, 1, 1, 1}, 0.5, at::kFloat).requires_grad_();
  const OptimizerOptions options{.momentum = 0, .weight_decay = 0.05};
  Optimizer optimizer({{"w.weight", weight}}, options);
  Scalar expected{.w = 0.5};
  for (int step = 1; step <= 5; ++step) {
    weight.mutable_grad() = at::full_like(weight.detach(), gradient_at(step, 0));
    optimizer.step(0.01);
    expected = reference(options, 0.01, 0.05, expected, gradient_at(step, 0), step);
  }
  EXPECT_NEAR(weight.detach().view({-1})[1].item<double>(), expected.w, 2e-6);
  EXPECT_TRUE(optimizer.state().empty());
  // Checkpoints of before have buffers.
  EXPECT_NO_THROW(
      optimizer.load_state({{"momentum_buffer.w.weight", at::ones({2, 1, 1, 1})}}, 5, "c.pt"));
}

TEST(Optimizer, NoticesAGradientWithOtherStrides) {
  const at::Tensor weight =
      at::ones({4, 3, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  Optimizer optimizer({{"w.weight", weight}}, {});
  weight.mutable_grad() = at::ones({4, 3, 3, 3});
  EXPECT_THROW(optimizer.step(0.1), Error);
}

TEST(Optimizer, RefusesStateOfAnotherShape) {
  const at::Tensor weight = at::ones({2, 2, 1, 1}).requires_grad_();
  Optimizer optimizer({{"w.weight", weight}}, {});
  EXPECT_THROW(optimizer.load_state({{"momentum_buffer.w.weight", at::ones({3})}}, 1, "c.pt"),
               Error);
  EXPECT_THROW(optimizer.load_state({}, 1, "c.pt"), Error);
}

TEST(GradientBuckets, LeaveNoHookBehind) {
  const at::Tensor a = at::ones({3}).requires_grad_();
  const auto comm = make_self_communicator();
  { GradientBuckets buckets({{"a", a}}, {}, *comm); }
  a.sum().backward();
  EXPECT_TRUE(at::equal(a.grad(), at::ones({3})));
}

TEST_P(OptimizerKinds, ClipByADivisorAndSkipByAFlag) {
  const auto updated = [](double gradient, const UpdateGuard& guard) {
    const at::Tensor value = at::full({3}, 0.5, at::kFloat).requires_grad_();
    Optimizer optimizer({{"c.weight", value}}, {.kind = GetParam()});
    value.mutable_grad() = at::full({3}, gradient);
    optimizer.step(0.1, guard);
    std::vector<at::Tensor> all = {value.detach()};
    for (const NamedTensor& state : optimizer.state()) all.push_back(state.tensor);
    return at::cat(all);
  };
  const at::Tensor norm = at::scalar_tensor(8.0 * std::sqrt(3.0), at::kDouble);
  const at::Tensor divisor = clip_divisor(norm, 4 * std::sqrt(3.0));
  EXPECT_NEAR(divisor.item<double>(), 2, 1e-6);
  EXPECT_EQ(clip_divisor(norm, 100).item<double>(), 1);
  EXPECT_TRUE(updated(8, {.divisor = divisor}).allclose(updated(4, {}), 1e-6, 1e-7));
  const at::Tensor untouched =
      updated(std::numeric_limits<double>::quiet_NaN(), {.divisor = divisor, .skip = at::ones({})});
  EXPECT_TRUE(untouched.slice(0, 0, 3).equal(at::full({3}, 0.5F)));
  EXPECT_EQ(untouched.slice(0, 3).abs().sum().item<double>(), 0);
  EXPECT_TRUE(updated(4, {.skip = at::zeros({})}).equal(updated(4, {})));
}

TEST(GradientBuckets, OfOneRankAreWhatBackwardMade) {
  const at::Tensor a =
      at::ones({4, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  const at::Tensor b = at::ones({5}).requires_grad_(), c = at::ones({2}).requires_grad_();
  const auto comm = make_self_communicator();
  GradientBuckets buckets({{"a", a}, {"b", b}, {"c", c}}, {}, *comm);
  (a.sum() * 2 + (b * b).sum()).backward();
  const void* place = a.grad().data_ptr();
  (a.sum() * 2 + (b * b).sum()).backward();
  EXPECT_EQ(a.grad().data_ptr(), place);
  EXPECT_EQ(a.grad().strides(), a.strides());
  buckets.all_reduce();
  EXPECT_TRUE(at::equal(c.grad(), at::zeros({2})));
  EXPECT_TRUE(at::equal(a.grad(), at::full_like(a.detach(), 4)));
  EXPECT_NEAR(buckets.norm().item<double>(), std::sqrt(48 * 16.0 + 5 * 16.0), 1e-9);
  buckets.zero();
  for (const at::Tensor& value : {a, b, c}) EXPECT_FALSE(value.grad().defined());
}

// Summed in f64 where the values are f32: large ones next to small ones, and the same bits whatever
// the threads.
TEST(GradientBuckets, HaveTheNormOfF64WhateverTheThreads) {
  at::manual_seed(3);
  const auto comm = make_self_communicator();
  const at::Tensor a = at::zeros({200001}).requires_grad_(), b = at::zeros({3}).requires_grad_();
  GradientBuckets buckets({{"a", a}, {"b", b}}, {}, *comm);
  a.mutable_grad() = at::randn({200001}) * at::pow(10.0, at::randint(-15, 15, {200001}));
  b.mutable_grad() = at::full({3}, 1e18);
  const double expected = at::cat({a.grad(), b.grad()}).to(at::kDouble).norm().item<double>();
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const double one = buckets.norm().item<double>();
  EXPECT_NEAR(one / expected, 1, 1e-14);
  for (const int threads : {2, 5}) {
    at::set_num_threads(threads);
    EXPECT_EQ(buckets.norm().item<double>(), one) << threads;
  }
  at::set_num_threads(before);
  a.mutable_grad()[100000] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isinf(buckets.norm().item<double>()));
  a.mutable_grad()[100001] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(buckets.norm().item<double>()));
}

}  // namespace
}  // namespace retina
