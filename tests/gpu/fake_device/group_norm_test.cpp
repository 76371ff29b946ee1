#include "shared/ops/group_norm.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <cstdint>
#include <limits>
#include <ostream>
#include <vector>

#include "shared/base/error.h"
#include "tests/ops/test_tensors.h"

namespace retina {
namespace {

constexpr double kEps = 1e-5;
const c10::Device kFakeGpu(c10::kCUDA, 0);
constexpr at::MemoryFormat kFormats[] = {at::MemoryFormat::Contiguous,
                                         at::MemoryFormat::ChannelsLast};

struct Sizes {
  std::vector<std::int64_t> shape;  // [N, C, H, W]
  std::int64_t group_count;
  friend std::ostream& operator<<(std::ostream& out, const Sizes& s) {
    return out << at::IntArrayRef(s.shape) << " in " << s.group_count << " groups";
  }
};

// One pixel; three, one and all channels a group; a single value a group; the heads' groups.
const std::vector<Sizes> kSizes = {{{1, 6, 1, 1}, 2},   {{2, 6, 3, 5}, 2}, {{3, 8, 7, 4}, 8},
                                   {{1, 10, 9, 9}, 1},  {{2, 4, 1, 1}, 4}, {{3, 256, 5, 3}, 32},
                                   {{2, 256, 1, 1}, 32}};

// What the operation takes besides x, f64.
struct Parameters {
  at::Tensor weight, bias;
};
Parameters parameters_of(std::int64_t channels) {
  return {random_tensor({.seed = 21, .shape = {channels}, .low = -1, .high = 2}),
          random_tensor({.seed = 22, .shape = {channels}, .low = -1, .high = 1})};
}

at::Tensor values_of(const std::vector<std::int64_t>& shape, std::uint64_t seed = 23) {
  return random_tensor({.seed = seed, .shape = shape, .low = -2, .high = 3});
}

using Operation = at::Tensor (*)(const at::Tensor&, std::int64_t, const at::Tensor&,
                                 const at::Tensor&, double);

at::Tensor aten_group_norm_relu(const at::Tensor& x, std::int64_t group_count,
                                const at::Tensor& weight, const at::Tensor& bias, double eps) {
  return at::group_norm(x, group_count, weight, bias, eps).relu();
}

struct Result {
  at::Tensor y, input_gradient, weight_gradient, bias_gradient;

  std::vector<at::Tensor> all() const {
    return {y, input_gradient, weight_gradient, bias_gradient};
  }
};

// On x's device, with `output_gradient` for dy.
Result result_of(Operation operation, const at::Tensor& x, std::int64_t group_count,
                 const Parameters& parameters, const at::Tensor& output_gradient) {
  const at::Tensor input = x.detach().requires_grad_();
  const auto leaf = [&](const at::Tensor& parameter) {
    return parameter.to(x.device(), /*non_blocking=*/false, /*copy=*/true).requires_grad_();
  };
  const at::Tensor weight = leaf(parameters.weight), bias = leaf(parameters.bias);
  const at::Tensor y = operation(input, group_count, weight, bias, kEps);
  const auto gradients =
      torch::autograd::grad({y}, {input, weight, bias}, {output_gradient.to(x.device())});
  return {y.detach().cpu(), gradients[0].cpu(), gradients[1].cpu(), gradients[2].cpu()};
}

void expect_equal(const Result& found, const Result& expected) {
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(found.all()[i].equal(expected.all()[i])) << i;
}

TEST(GroupNormRelu, EqualsGroupNormAndReluWithAllGradients) {
  for (const Sizes& sizes : kSizes) {
    SCOPED_TRACE(sizes);
    const Parameters parameters = parameters_of(sizes.shape[1]);
    const at::Tensor x = values_of(sizes.shape), dy = values_of(sizes.shape, 24);
    const Result expected = result_of(aten_group_norm_relu, x, sizes.group_count, parameters, dy);
    EXPECT_TRUE(expected.y.eq(0).any().item<bool>() && expected.y.gt(0).any().item<bool>());
    for (const auto format : kFormats) {
      const Result found = result_of(group_norm_relu, x.contiguous(format).to(kFakeGpu),
                                     sizes.group_count, parameters, dy.contiguous(format));
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_TRUE(found.all()[i].allclose(expected.all()[i], 1e-11, 1e-11)) << i;
      }
    }
  }
}

TEST(GroupNormRelu, HasTheBitsOfLibTorchOnACpu) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const Parameters wide = parameters_of(16);
    const Parameters parameters = {wide.weight.to(at::kFloat), wide.bias.to(at::kFloat)};
    const at::Tensor x = values_of({2, 16, 6, 7}).to(type),
                     dy = values_of({2, 16, 6, 7}, 27).to(type);
    for (const auto format : kFormats) {
      SCOPED_TRACE(testing::Message() << type << ", " << format);
      const at::Tensor values = x.contiguous(format);
      expect_equal(result_of(group_norm_relu, values, 4, parameters, dy),
                   result_of(aten_group_norm_relu, values, 4, parameters, dy));
    }
  }
}

TEST(GroupNormRelu, DoesNotDependOnTheMemoryAndKeepsItsFormat) {
  const Parameters parameters = parameters_of(6);
  const at::Tensor x = values_of({2, 6, 5, 4}).to(kFakeGpu), dy = values_of({2, 6, 5, 4}, 28);
  const Result expected = result_of(group_norm_relu, x, 3, parameters, dy);
  EXPECT_TRUE(expected.y.is_contiguous() && expected.input_gradient.is_contiguous());
  const auto last = at::MemoryFormat::ChannelsLast;
  const Result channels_last = result_of(group_norm_relu, x.contiguous(last), 3, parameters, dy);
  EXPECT_TRUE(channels_last.y.is_contiguous(last));
  EXPECT_TRUE(channels_last.input_gradient.is_contiguous(last));
  expect_equal(channels_last, expected);
  const at::Tensor part = torch::zeros({2, 6, 5, 9}, x.options()).slice(3, 1, 9, 2);
  part.copy_(x);
  expect_equal(result_of(group_norm_relu, part, 3, parameters, dy), expected);
  const at::Tensor turned = x.permute({0, 3, 2, 1}).contiguous().permute({0, 3, 2, 1});
  expect_equal(result_of(group_norm_relu, turned, 3, parameters, dy.contiguous(last)), expected);
}

TEST(GroupNormRelu, HidesNoValueThatIsNotFinite) {
  const Parameters parameters = parameters_of(6);
  for (const double value :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const at::Tensor x = values_of({2, 6, 3, 3});
    x[1][4][2][0] = value;
    const at::Tensor y = result_of(group_norm_relu, x.to(kFakeGpu), 2, parameters, x).y;
    EXPECT_TRUE(y[1].slice(0, 3, 6).isnan().all().item<bool>()) << value;
    EXPECT_FALSE(y[0].isnan().any().item<bool>()) << value;
    EXPECT_FALSE(y[1].slice(0, 0, 3).isnan().any().item<bool>()) << value;
  }
}

TEST(GroupNormRelu, OfNothingIsNothingWithGradientsOfZero) {
  const Parameters parameters = parameters_of(6);
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{0, 6, 3, 3}, std::vector<std::int64_t>{2, 6, 0, 3}}) {
    const at::Tensor nothing = torch::empty(shape, at::kDouble).to(kFakeGpu);
    const Result result = result_of(group_norm_relu, nothing, 2, parameters, nothing);
    EXPECT_EQ(result.y.sizes(), at::IntArrayRef(shape));
    EXPECT_EQ(result.input_gradient.sizes(), at::IntArrayRef(shape));
    EXPECT_TRUE(result.weight_gradient.equal(torch::zeros({6}, at::kDouble)));
    EXPECT_TRUE(result.bias_gradient.equal(torch::zeros({6}, at::kDouble)));
  }
}

TEST(GroupNormRelu, RefusesToDifferentiateItsGradient) {
  const Parameters parameters = parameters_of(6);
  const at::Tensor x = values_of({1, 6, 2, 2}).to(kFakeGpu).requires_grad_();
  const at::Tensor y =
      group_norm_relu(x, 2, parameters.weight.to(kFakeGpu), parameters.bias.to(kFakeGpu), kEps);
  EXPECT_THROW(torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true,
                                     /*create_graph=*/true),
               Error);
}

TEST(GroupNormRelu, RefusesWhatDoesNotFit) {
  const Parameters p = parameters_of(6);
  const at::Tensor x = values_of({1, 6, 2, 2}), narrow = p.weight.to(at::kFloat);
  EXPECT_THROW(group_norm_relu(x, 4, p.weight, p.bias, kEps), Error);
  EXPECT_THROW(group_norm_relu(x, 0, p.weight, p.bias, kEps), Error);
  EXPECT_THROW(group_norm_relu(x, 2, p.weight.slice(0, 1), p.bias, kEps), Error);
  EXPECT_THROW(group_norm_relu(x, 2, narrow, p.bias, kEps), Error);
  EXPECT_THROW(group_norm_relu(x, 2, p.weight, narrow, kEps), Error);
  EXPECT_THROW(group_norm_relu(x.to(at::kBFloat16), 2, p.weight, p.bias, kEps), Error);
  EXPECT_THROW(group_norm_relu(x.to(at::kHalf), 2, p.weight, p.bias, kEps), Error);
  EXPECT_THROW(group_norm_relu(x[0], 2, p.weight, p.bias, kEps), Error);
  EXPECT_THROW(group_norm_relu(x, 2, p.weight, p.bias, -1), Error);
}

}  // namespace
}  // namespace retina
