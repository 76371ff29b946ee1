// Convolution, bias, residual and ReLU in one call of cuDNN against the separate calls: outputs and
// gradients, and that the comparison which a run makes finds what is wrong.
#include <ATen/ops/conv2d.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <vector>

#include "shared/model/device.h"
#include "shared/model/fused_conv.h"
#include "shared/ops/bias_relu.h"
#include "tests/gpu/gpu.h"
#include "tests/ops/test_tensors.h"

namespace retina {
namespace {

class FusedConvOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    RETINA_GPU_OR_SKIP();
    set_tf32(false);
  }

  struct Shape {
    std::int64_t in, out, kernel, stride, padding;
    bool has_residual;
  };
  static constexpr Shape kShapes[] = {{64, 64, 3, 1, 1, false},
                                      {64, 256, 1, 1, 0, true},
                                      {128, 128, 3, 2, 1, false},
                                      {512, 256, 1, 2, 0, false}};

  static at::Tensor draw(std::uint64_t seed, std::vector<std::int64_t> shape, at::ScalarType type) {
    return random_tensor({.seed = seed, .shape = std::move(shape), .low = -1, .high = 1})
        .to(test_device(), type)
        .contiguous(at::MemoryFormat::ChannelsLast)
        .requires_grad_();
  }
  static ConvRelu conv(const Shape& s, at::ScalarType type) {
    constexpr std::int64_t kSide = 26;
    const std::int64_t side = (kSide + 2 * s.padding - s.kernel) / s.stride + 1;
    ConvRelu c = {.x = draw(1, {2, s.in, kSide, kSide}, type),
                  .weight = draw(2, {s.out, s.in, s.kernel, s.kernel}, type),
                  .bias = random_tensor({.seed = 3, .shape = {s.out}, .low = -1, .high = 1})
                              .to(test_device(), at::kFloat)
                              .requires_grad_(),
                  .residual = {},
                  .stride = s.stride,
                  .padding = s.padding};
    if (s.has_residual) c.residual = draw(4, {2, s.out, side, side}, type);
    return c;
  }
  // y, and the gradients of x, weight, bias and, where there is one, the residual; f32 on the CPU.
  static std::vector<at::Tensor> results(const ConvRelu& c, bool fused) {
    const at::Tensor y = fused ? fused_conv_relu(c)
                               : bias_relu(at::conv2d(c.x, c.weight, {}, c.stride, c.padding),
                                           {.bias = c.bias, .residual = c.residual, .relu = true});
    std::vector<at::Tensor> leaves = {c.x, c.weight, c.bias};
    if (c.residual.defined()) leaves.push_back(c.residual);
    // Small where the ReLU's kink is: nothing jumps.
    const at::Tensor dy = y.detach().clamp_max(1) * 0.01;
    std::vector<at::Tensor> all = torch::autograd::grad({y}, leaves, {dy});
    all.insert(all.begin(), y.detach());
    for (at::Tensor& tensor : all) tensor = tensor.cpu().to(at::kFloat);
    return all;
  }
};

TEST_F(FusedConvOnGpu, IsTheSeparateCallsWithTheirGradients) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const Shape& shape : kShapes) {
      const ConvRelu c = conv(shape, type);
      const std::vector<at::Tensor> fused = results(c, true), expected = results(c, false);
      ASSERT_EQ(fused.size(), expected.size());
      for (std::size_t i = 0; i < fused.size(); ++i) {
        const double distance = (fused[i] - expected[i]).norm().item<double>();
        EXPECT_LE(distance, (type == at::kFloat ? 1e-5 : 1e-2) * expected[i].norm().item<double>())
            << "result " << i << ", " << at::toString(type) << ", " << shape.in << " to "
            << shape.out;
      }
    }
  }
}

TEST_F(FusedConvOnGpu, KeepsInputsThatNeedNoGradientWithoutOne) {
  ConvRelu c = conv(kShapes[1], at::kFloat);
  c.weight = c.weight.detach();
  c.bias = c.bias.detach();
  const at::Tensor y = fused_conv_relu(c);
  y.sum().backward();
  EXPECT_TRUE(c.x.grad().defined() && c.residual.grad().defined());
  EXPECT_FALSE(c.weight.grad().defined());
}

TEST_F(FusedConvOnGpu, AgreesWithTheSeparateCallsInTheComparisonOfARun) {
  FusedConvCheck check;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const Shape& shape : kShapes) check.compare(conv(shape, type));
  }
  EXPECT_EQ(check.problem(), "");
  EXPECT_EQ(check.compared(), 8);
  EXPECT_GT(check.largest_share(), 0);
}

}  // namespace
}  // namespace retina
