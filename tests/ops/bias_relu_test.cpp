#include "shared/ops/bias_relu.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <limits>
#include <vector>

#include "tests/ops/test_tensors.h"

namespace retina {
namespace {

struct Case {
  at::ScalarType type;
  at::MemoryFormat format;
  bool bias, residual, relu;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      for (int bits = 0; bits < 8; ++bits) {
        cases.push_back({type, format, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0});
      }
    }
  }
  return cases;
}

// BiasInputs whose results are at hand.
struct BiasInputs {
  at::Tensor x, bias, residual, output_gradient;
  explicit BiasInputs(const Case& c) {
    const std::vector<std::int64_t> shape = {2, 16, 5, 7};
    const auto draw = [&](std::uint64_t seed) {
      return random_tensor({.seed = seed, .shape = shape, .low = -2, .high = 2})
          .to(c.type)
          .contiguous(c.format);
    };
    x = draw(1).requires_grad_();
    output_gradient = draw(2);
    const at::ScalarType wide = c.type == at::kDouble ? at::kDouble : at::kFloat;
    if (c.bias) {
      bias =
          random_tensor({.seed = 3, .shape = {16}, .low = -1, .high = 1}).to(wide).requires_grad_();
    }
    if (c.residual) residual = draw(4).requires_grad_();
  }
  std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& tensor : {x, bias, residual}) {
      if (tensor.defined()) all.push_back(tensor.grad());
    }
    return all;
  }
};

// y and the gradients by LibTorch's operators, in f32 or f64.
std::vector<at::Tensor> by_operators(const Case& c) {
  const BiasInputs in(c);
  const at::ScalarType wide = c.type == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor y = in.x.to(wide);
  if (c.bias) y = y + in.bias.view({1, -1, 1, 1});
  if (c.residual) y = y + in.residual.to(wide);
  if (c.relu) y = y.relu();
  y.backward(in.output_gradient.to(wide));
  std::vector<at::Tensor> all = in.gradients();
  all.push_back(y.detach().to(c.type));
  return all;
}

TEST(BiasRelu, IsAddAndReluInOneRounding) {
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(testing::Message() << at::toString(c.type) << " bias " << c.bias << " residual "
                                    << c.residual << " relu " << c.relu << " channels last "
                                    << (c.format == at::MemoryFormat::ChannelsLast));
    const BiasInputs in(c);
    const at::Tensor y =
        bias_relu(in.x.clone(), {.bias = in.bias, .residual = in.residual, .relu = c.relu});
    EXPECT_TRUE(y.is_contiguous(c.format));
    y.backward(in.output_gradient);
    std::vector<at::Tensor> found = in.gradients();
    found.push_back(y.detach());
    const std::vector<at::Tensor> expected = by_operators(c);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].scalar_type(), expected[i].scalar_type()) << i;
      if (found[i].dim() == 4) {
        EXPECT_TRUE(found[i].equal(expected[i])) << i;
      } else {  // a bias' gradient: a sum in another order
        EXPECT_TRUE(found[i].allclose(expected[i], 1e-5, 1e-5)) << i;
      }
    }
  }
}

TEST(BiasRelu, TakesTheMemoryOfItsInput) {
  at::Tensor x = torch::ones({1, 3, 2, 2});
  const at::Tensor y = bias_relu(x, {.bias = torch::tensor({1.0F, -2.0F, 0.5F})});
  EXPECT_EQ(y.data_ptr(), x.data_ptr());
  EXPECT_EQ(x.sum({0, 2, 3}).sum().item<float>(), 4 * (2 + 0 + 1.5F));
}

TEST(BiasRelu, CopiesWhatIsNotDense) {
  const at::Tensor whole = random_tensor({.seed = 7, .shape = {2, 3, 4, 10}, .low = -2, .high = 2}),
                   x = whole.slice(3, 0, 10, 2), before = whole.clone();
  EXPECT_TRUE(bias_relu(x, {.bias = torch::zeros({3})}).equal(x.relu()));
  EXPECT_TRUE(whole.equal(before));
}

TEST(BiasRelu, KeepsNanAndInfinity) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                  kInfinity = std::numeric_limits<float>::infinity();
  const at::Tensor y = bias_relu(torch::tensor({kNan, kInfinity, -kInfinity}).view({1, 1, 1, 3}),
                                 {.bias = torch::zeros({1})})
                           .flatten();
  EXPECT_TRUE(std::isnan(y[0].item<float>()));
  EXPECT_EQ(y[1].item<float>(), kInfinity);
  EXPECT_EQ(y[2].item<float>(), 0);
}

// Of a bf16 convolution it may be f32: of a downsampling whose side is thin (layers.cpp).
TEST(BiasRelu, TakesAWiderResidual) {
  const at::Tensor x = random_tensor({.seed = 5, .shape = {3, 24, 9, 9}}).to(at::kBFloat16),
                   residual = random_tensor({.seed = 6, .shape = {3, 24, 9, 9}}).to(at::kFloat);
  EXPECT_TRUE(bias_relu(x.clone(), {.residual = residual})
                  .equal((x.to(at::kFloat) + residual).to(at::kBFloat16)));
}

TEST(BiasRelu, OfNothingIsNothing) {
  const at::Tensor x = torch::zeros({0, 4, 3, 3}).requires_grad_();
  const at::Tensor bias = torch::ones({4}).requires_grad_();
  const at::Tensor y = bias_relu(x.clone(), {.bias = bias});
  y.sum().backward();
  EXPECT_EQ(y.numel(), 0);
  EXPECT_TRUE(bias.grad().equal(torch::zeros({4})));
}

}  // namespace
}  // namespace retina
