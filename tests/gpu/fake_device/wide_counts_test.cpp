// Kernels count values beyond 31 bits. Of each tensor, only the last image or rows are touched: the
// rest is address space, and 0.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <functional>
#include <vector>

#include "shared/ops/batch_norm.h"
#include "shared/ops/bias_relu.h"
#include "shared/ops/dropout.h"
#include "shared/ops/group_norm.h"
#include "shared/ops/head_losses.h"
#include "tests/gpu/fake_device/fake_device.h"
#include "tests/ops/test_tensors.h"

namespace retina {
namespace {

using Tensors = std::vector<at::Tensor>;

const c10::Device kDevice(c10::kCUDA, 0);
constexpr std::int64_t kBeyond = std::int64_t{1} << 31;

class WideCounts : public testing::Test {
 protected:
  void SetUp() override { run_only(nullptr); }
  void TearDown() override { fake_device::reset(); }

  static void run_only(const emulation::Blocks& blocks) {
    fake_device::reset({.memory_bytes = std::int64_t{1} << 50, .only_blocks = blocks});
  }
};

at::Tensor drawn(std::uint64_t seed, const std::vector<std::int64_t>& shape, at::ScalarType type) {
  return random_tensor({.seed = seed, .shape = shape, .low = -1, .high = 2}).to(type);
}

// Channels-last, all of it untouched but `last`, which is at the end.
at::Tensor ending_with(const at::Tensor& last, std::int64_t image_count) {
  std::vector<std::int64_t> shape = last.sizes().vec();
  shape[0] = image_count;
  auto options = last.options().device(kDevice);
  if (last.dim() == 4) options = options.memory_format(at::MemoryFormat::ChannelsLast);
  const at::Tensor all = torch::empty(shape, options);
  all[image_count - 1].copy_(last[0]);
  return all;
}

// The same for results of `last`, the last one, as of it alone. `results_of` takes the number of
// images.
void expect_last_image_as_alone(std::int64_t values_per_image, const emulation::Blocks& blocks,
                                const std::function<Tensors(std::int64_t)>& results_of) {
  Tensors alone;
  for (const at::Tensor& result : results_of(1)) alone.push_back(result[0].cpu());
  fake_device::reset({.memory_bytes = std::int64_t{1} << 50, .only_blocks = blocks});
  const std::int64_t image_count = kBeyond / values_per_image + 2;
  ASSERT_LE(image_count, 65535) << "a grid's side";
  const Tensors of_many = results_of(image_count);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_TRUE(of_many[i][image_count - 1].cpu().equal(alone[i])) << i;
  }
}

// In grids that have an image along y or, where they have no y, along x. Some take the images from
// the last one on.
bool has_last_image(const emulation::uint3& block, const emulation::dim3& grid) {
  return grid.y > 1 ? block.y == 0 || block.y + 1 == grid.y : block.x + 1 == grid.x;
}

TEST_F(WideCounts, OfAGroupNorm) {
  for (const auto& [channels, pixels, groups] :
       {std::tuple(256, 130, 32), std::tuple(6, 5500, 2)}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const std::vector<std::int64_t> shape = {1, channels, pixels, 1};
      const at::Tensor weight = drawn(1, {channels}, at::kFloat).to(kDevice),
                       bias = drawn(2, {channels}, at::kFloat).to(kDevice);
      run_only(nullptr);
      expect_last_image_as_alone(
          channels * pixels, has_last_image, [&, groups = groups](std::int64_t images) {
            const at::Tensor x = ending_with(drawn(3, shape, type), images).requires_grad_();
            const at::Tensor y = group_norm_relu(x, groups, weight, bias, 1e-5);
            const at::Tensor dy = ending_with(drawn(4, shape, type), images);
            return Tensors{y.detach(), torch::autograd::grad({y}, {x}, {dy})[0]};
          });
    }
  }
}

TEST_F(WideCounts, OfADropout) {
  const at::Tensor last = drawn(1, {1, 256, 130, 1}, at::kBFloat16);
  expect_last_image_as_alone(256 * 130, has_last_image, [&](std::int64_t images) {
    at::Tensor slots = torch::full({images}, 9, kDevice);
    return Tensors{dropout(ending_with(last, images), 0.3, slots, {.seed = 7, .step = 5})};
  });
}

TEST_F(WideCounts, OfAFocalLoss) {
  constexpr std::int64_t kAnchors = 420, kClasses = 80;
  const at::Tensor logits = drawn(1, {1, kAnchors, kClasses}, at::kFloat),
                   matches = drawn(2, {1, kAnchors}, at::kFloat).to(at::kLong),
                   labels = torch::arange(2).to(kDevice);
  expect_last_image_as_alone(kAnchors * kClasses, has_last_image, [&](std::int64_t images) {
    const LossSums loss =
        focal_loss({ending_with(logits, images)}, ending_with(matches, images), labels,
                   ending_with(torch::full({1}, 1.5F), images), FocalOptions());
    return Tensors{loss.sums, loss.gradients[0]};
  });
}

// Where the number of a share times that of the values is beyond 31 bits.
TEST_F(WideCounts, OfAFocalLossesShares) {
  run_only([](const auto& block, const auto& grid) { return block.x + 1 == grid.x; });
  const at::Tensor logits = drawn(1, {1, 120'087, 80}, at::kFloat);
  const auto gradient_on = [&](c10::Device device) {
    const at::Tensor matches = torch::full({1, 120'087}, std::int64_t{-1}, device);
    return focal_loss({logits.to(device)}, matches, torch::zeros({1}, at::kLong).to(device),
                      torch::ones({1}, device), FocalOptions())
        .gradients[0]
        .flatten()
        .cpu();
  };
  const at::Tensor found = gradient_on(kDevice), expected = gradient_on(at::kCPU);
  const std::int64_t count = found.numel(), first = count * 255 / 256;
  EXPECT_TRUE(found.slice(0, first).allclose(expected.slice(0, first), 2e-5, 1e-6));
  EXPECT_TRUE(found.slice(0, 0, first).eq(0).all().item<bool>()) << "did not run";
}

// [R, C, 1, 1], whose last rows are `last`: more than 2^31 values, whole chunks of rows and `last`.
at::Tensor rows_ending_with(const at::Tensor& last) {
  constexpr std::int64_t kMostChunk = 1 << 17;  // rows
  const std::int64_t rows = (kBeyond / last.size(1) / kMostChunk + 1) * kMostChunk + last.size(0);
  const at::Tensor all =
      torch::empty({rows, last.size(1), 1, 1},
                   last.options().device(kDevice).memory_format(at::MemoryFormat::ChannelsLast));
  all.slice(0, rows - last.size(0)).copy_(last);
  return all;
}

TEST_F(WideCounts, OfBiasAndReluAndABatchNorm) {
  constexpr std::int64_t kTail = 40;
  for (const auto& [channels, type] :
       {std::pair(64, at::kFloat), std::pair(512, at::kBFloat16), std::pair(63, at::kFloat)}) {
    SCOPED_TRACE(channels);
    // Of the wide grids the ends: some take the rows from the last one on.
    run_only([](const emulation::uint3& block, const emulation::dim3& grid) {
      const unsigned blocks_of_tail = grid.x > 1'000'000 ? 12 : 5;
      return grid.x < 1000 || block.x < blocks_of_tail || block.x + blocks_of_tail >= grid.x;
    });
    const std::vector<std::int64_t> shape = {kTail, channels, 1, 1};
    const at::Tensor x = drawn(1, shape, type), residual = drawn(2, shape, type),
                     dy = drawn(3, shape, type), weight = drawn(4, {channels}, at::kFloat),
                     bias = drawn(5, {channels}, at::kFloat);
    const auto tail = [](const at::Tensor& all) {
      return all.slice(0, all.size(0) - kTail).cpu().to(at::kDouble).view({kTail, -1});
    };
    const auto expect_close = [&](const at::Tensor& found, const at::Tensor& expected) {
      const double relative = type == at::kFloat ? 1e-5 : 8e-3;
      EXPECT_TRUE(found.allclose(expected, relative, 1e-4)) << (found - expected).abs().max();
    };
    const at::Tensor wide = x.to(at::kDouble).view({kTail, -1}),
                     added = residual.to(at::kDouble).view({kTail, -1}),
                     after = dy.to(at::kDouble).view({kTail, -1});
    const auto grad = [&](const at::Tensor& y, const Tensors& leaves) {
      return torch::autograd::grad({y}, leaves, {rows_ending_with(dy)});
    };
    {
      const at::Tensor leaf = rows_ending_with(residual).requires_grad_(),
                       shift = bias.to(kDevice).requires_grad_();
      const at::Tensor y = bias_relu(rows_ending_with(x), {.bias = shift, .residual = leaf});
      const auto gradients = grad(y, {leaf, shift});
      const at::Tensor before = wide + bias + added, passed = after * before.gt(0);
      expect_close(tail(y.detach()), before.relu());
      expect_close(tail(gradients[0]), passed);
      expect_close(gradients[1].cpu().to(at::kDouble), passed.sum(0));
    }
    const at::Tensor leaf = rows_ending_with(x).requires_grad_(),
                     factor = weight.to(kDevice).requires_grad_(),
                     shift = bias.to(kDevice).requires_grad_();
    const at::Tensor mean = torch::zeros({channels}, kDevice),
                     var = torch::ones({channels}, kDevice);
    const at::Tensor y = batch_norm_relu(leaf, {.weight = factor,
                                                .bias = shift,
                                                .running_mean = mean,
                                                .running_var = var,
                                                .residual = rows_ending_with(residual),
                                                .relu = true});
    const auto gradients = grad(y, {leaf, factor, shift});
    const auto rows = static_cast<double>(leaf.size(0));
    const at::Tensor centre = wide.sum(0) / rows,
                     scale = (wide.square().sum(0) / rows - centre.square() + 1e-5).rsqrt(),
                     normal = (wide - centre) * scale, before = normal * weight + bias + added,
                     passed = after * before.gt(0),
                     from_others = (passed.sum(0) + normal * (passed * normal).sum(0)) / rows;
    expect_close(tail(y.detach()), before.relu());
    expect_close(tail(gradients[0]), weight * scale * (passed - from_others));
    expect_close(gradients[1].cpu().to(at::kDouble), (passed * normal).sum(0));
    expect_close(gradients[2].cpu().to(at::kDouble), passed.sum(0));
  }
}

}  // namespace
}  // namespace retina
