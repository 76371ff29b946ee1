#include "shared/ops/batch_norm.h"

#include <ATen/ops/batch_norm.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <cstdint>
#include <ostream>
#include <vector>

#include "shared/base/error.h"
#include "tests/ops/test_tensors.h"

namespace retina {
namespace {

constexpr double kEps = 1e-5;
constexpr double kMomentum = 0.3;
const c10::Device kFakeGpu(c10::kCUDA, 0);
constexpr at::MemoryFormat kLast = at::MemoryFormat::ChannelsLast;

// What follows the norm.
struct Behind {
  bool residual, relu;
  friend std::ostream& operator<<(std::ostream& out, const Behind& b) {
    return out << (b.residual ? "a residual, " : "") << (b.relu ? "a ReLU" : "no ReLU");
  }
};
constexpr Behind kAll[] = {{false, false}, {false, true}, {true, false}, {true, true}};

// All that the operation takes, and dy.
struct Inputs {
  at::Tensor x, weight, bias, running_mean, running_var, residual, dy;

  explicit Inputs(const std::vector<std::int64_t>& shape, const Behind& behind = {true, true}) {
    const std::vector<std::int64_t> channels = {shape[1]};
    x = random_tensor({.seed = 41, .shape = shape, .low = -2, .high = 3});
    dy = random_tensor({.seed = 42, .shape = shape, .low = -1, .high = 1});
    weight = random_tensor({.seed = 43, .shape = channels, .low = -1, .high = 2});
    bias = random_tensor({.seed = 44, .shape = channels, .low = -1, .high = 1});
    running_mean = random_tensor({.seed = 45, .shape = channels, .low = -1, .high = 1});
    running_var = random_tensor({.seed = 46, .shape = channels, .low = 0.5, .high = 2});
    if (behind.residual) {
      residual = random_tensor({.seed = 47, .shape = shape, .low = -1, .high = 1});
    }
  }

  // Of each tensor of x's shape, and of each of a channel's.
  template <class Image, class Channels>
  Inputs changed(const Image& image, const Channels& channels) const {
    Inputs result = *this;
    for (at::Tensor* const one : {&result.x, &result.residual, &result.dy}) {
      if (one->defined()) *one = image(*one);
    }
    for (at::Tensor* const one :
         {&result.weight, &result.bias, &result.running_mean, &result.running_var}) {
      *one = channels(*one);
    }
    return result;
  }
  // There in dense memory of that order.
  Inputs on_gpu(at::MemoryFormat format = at::MemoryFormat::Contiguous) const {
    return changed([&](const at::Tensor& image) { return image.contiguous(format).to(kFakeGpu); },
                   [](const at::Tensor& channels) { return channels.to(kFakeGpu); });
  }
  BatchNorm norm(bool relu) const {
    return {.weight = weight,
            .bias = bias,
            .running_mean = running_mean,
            .running_var = running_var,
            .momentum = kMomentum,
            .eps = kEps,
            .residual = residual,
            .relu = relu};
  }
};

using Operation = at::Tensor (*)(const at::Tensor&, const BatchNorm&);

at::Tensor aten_batch_norm_relu(const at::Tensor& x, const BatchNorm& what) {
  at::Tensor y =
      at::batch_norm(x, what.weight, what.bias, what.running_mean, what.running_var,
                     /*training=*/true, what.momentum, what.eps, /*cudnn_enabled=*/false);
  if (what.residual.defined()) y += what.residual;
  return what.relu ? y.relu() : y;
}

// y, the running statistics, the gradients of x, weight, bias and, where it is there, the residual.
std::vector<at::Tensor> results_of(Operation operation, const Inputs& inputs, bool relu) {
  Inputs own = inputs;
  std::vector<at::Tensor> leaves;
  for (at::Tensor* const one : {&own.x, &own.weight, &own.bias, &own.residual}) {
    if (!one->defined()) continue;
    *one = one->detach().requires_grad_();
    leaves.push_back(*one);
  }
  own.running_mean = own.running_mean.clone();
  own.running_var = own.running_var.clone();
  const at::Tensor y = operation(own.x, own.norm(relu));
  std::vector<at::Tensor> results = {y.detach().cpu(), own.running_mean.cpu(),
                                     own.running_var.cpu()};
  for (const at::Tensor& gradient : torch::autograd::grad({y}, leaves, {own.dy})) {
    results.push_back(gradient.cpu());
  }
  return results;
}

void expect_equal(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << i;
}

TEST(BatchNormRelu, EqualsBatchNormAddAndReluWithAllGradients) {
  // One channel; few values of many channels; more than 16 of an uneven number.
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{2, 1, 3, 5}, {2, 70, 1, 1}, {3, 19, 7, 4}, {1, 64, 9, 9}}) {
    for (const Behind& behind : kAll) {
      SCOPED_TRACE(testing::Message() << at::IntArrayRef(shape) << ", " << behind);
      const Inputs inputs(shape, behind);
      const auto expected = results_of(aten_batch_norm_relu, inputs, behind.relu);
      for (const auto format : {at::MemoryFormat::Contiguous, kLast}) {
        const auto found = results_of(batch_norm_relu, inputs.on_gpu(format), behind.relu);
        ASSERT_EQ(found.size(), expected.size());
        for (std::size_t i = 0; i < found.size(); ++i) {
          EXPECT_TRUE(found[i].allclose(expected[i], 1e-10, 1e-10)) << i;
        }
      }
    }
  }
}

// The residual of a bf16 x may be f32: of a downsampling whose side is thin (layers.cpp).
TEST(BatchNormRelu, HasTheBitsOfLibTorchOnACpu) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const Behind& behind : kAll) {
      for (const auto format : {at::MemoryFormat::Contiguous, kLast}) {
        SCOPED_TRACE(testing::Message() << type << ", " << behind << ", " << format);
        Inputs inputs =
            Inputs({3, 19, 7, 4}, behind)
                .changed([&](const at::Tensor& image) { return image.to(type).contiguous(format); },
                         [](const at::Tensor& channels) { return channels.to(at::kFloat); });
        if (behind.residual) inputs.residual = inputs.residual.to(at::kFloat);
        expect_equal(results_of(batch_norm_relu, inputs, behind.relu),
                     results_of(aten_batch_norm_relu, inputs, behind.relu));
      }
    }
  }
}

TEST(BatchNormRelu, DoesNotDependOnTheMemoryAndKeepsItsFormat) {
  const Inputs inputs = Inputs({2, 6, 5, 4}).on_gpu();
  const auto expected = results_of(batch_norm_relu, inputs, true);
  for (const std::size_t i : {0, 3, 6}) EXPECT_TRUE(expected[i].is_contiguous()) << i;
  const auto last = results_of(batch_norm_relu, Inputs({2, 6, 5, 4}).on_gpu(kLast), true);
  for (const std::size_t i : {0, 3, 6}) EXPECT_TRUE(last[i].is_contiguous(kLast)) << i;
  expect_equal(last, expected);
  Inputs part = inputs;
  part.x = torch::zeros({2, 6, 5, 9}, inputs.x.options()).slice(3, 1, 9, 2).copy_(inputs.x);
  part.residual = inputs.residual.permute({0, 3, 2, 1}).contiguous().permute({0, 3, 2, 1});
  part.dy = inputs.dy.contiguous(kLast);
  expect_equal(results_of(batch_norm_relu, part, true), expected);
}

TEST(BatchNormRelu, GivesGradientsToWhatWantsThem) {
  const Inputs inputs = Inputs({2, 6, 5, 4}).on_gpu();
  const auto all = results_of(batch_norm_relu, inputs, true);
  for (const bool residual_wants : {true, false}) {
    const at::Tensor leaf = (residual_wants ? inputs.residual : inputs.x).detach().clone();
    leaf.requires_grad_();
    BatchNorm norm = inputs.norm(true);
    if (residual_wants) norm.residual = leaf;
    const at::Tensor y = batch_norm_relu(residual_wants ? inputs.x : leaf, norm);
    const at::Tensor gradient = torch::autograd::grad({y}, {leaf}, {inputs.dy})[0];
    EXPECT_TRUE(gradient.cpu().equal(all[residual_wants ? 6 : 3])) << residual_wants;
  }
}

TEST(BatchNormRelu, OfNothingIsNothingWithGradientsOfZero) {
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{0, 6, 3, 3}, std::vector<std::int64_t>{2, 6, 0, 3}}) {
    const Inputs inputs(shape);
    const auto found = results_of(batch_norm_relu, inputs.on_gpu(), true);
    for (const std::size_t i : {0, 3, 6}) EXPECT_EQ(found[i].sizes(), at::IntArrayRef(shape));
    EXPECT_TRUE(found[1].equal(inputs.running_mean) && found[2].equal(inputs.running_var));
    EXPECT_TRUE(found[4].eq(0).all().item<bool>() && found[5].eq(0).all().item<bool>());
  }
}

TEST(BatchNormRelu, RefusesToDifferentiateItsGradient) {
  const Inputs inputs = Inputs({1, 6, 2, 2}).on_gpu();
  const at::Tensor x = inputs.x.requires_grad_();
  const at::Tensor y = batch_norm_relu(x, inputs.norm(true));
  EXPECT_THROW(torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true,
                                     /*create_graph=*/true),
               Error);
}

TEST(BatchNormRelu, RefusesWhatDoesNotFit) {
  const Inputs inputs({1, 6, 2, 2});
  const auto expect_refused = [&](const at::Tensor& x, const auto& change) {
    BatchNorm norm = inputs.norm(true);
    change(norm);
    EXPECT_THROW(batch_norm_relu(x, norm), Error);
  };
  const auto as_it_is = [](const BatchNorm&) {};
  expect_refused(inputs.x[0], as_it_is);
  expect_refused(inputs.x.to(at::kFloat), as_it_is);
  expect_refused(inputs.x.to(at::kHalf), as_it_is);
  for (at::Tensor BatchNorm::*const tensor :
       {&BatchNorm::weight, &BatchNorm::bias, &BatchNorm::running_mean, &BatchNorm::running_var}) {
    expect_refused(inputs.x, [&](BatchNorm& norm) { norm.*tensor = (norm.*tensor).slice(0, 1); });
    expect_refused(inputs.x,
                   [&](BatchNorm& norm) { norm.*tensor = (norm.*tensor).to(at::kFloat); });
  }
  expect_refused(inputs.x, [&](BatchNorm& norm) { norm.residual = norm.residual.slice(2, 1); });
  expect_refused(inputs.x, [&](BatchNorm& norm) { norm.residual = norm.residual.to(kFakeGpu); });
  expect_refused(inputs.x, [](BatchNorm& norm) { norm.eps = -1; });
  expect_refused(inputs.x, [](BatchNorm& norm) { norm.momentum = 1.5; });
}

}  // namespace
}  // namespace retina
