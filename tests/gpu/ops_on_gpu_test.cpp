// Each CUDA kernel, by its operation, against the CPU on random tensors. Matches, NMS, dropout,
// bias and ReLU, and images must agree in every bit; losses and norms differ by the last bits of
// exp and log, of sums, and what these decide.
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/group_norm.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "shared/base/error.h"
#include "shared/ops/atss.h"
#include "shared/ops/batch_norm.h"
#include "shared/ops/bias_relu.h"
#include "shared/ops/dropout.h"
#include "shared/ops/group_norm.h"
#include "shared/ops/matcher.h"
#include "shared/ops/nms.h"
#include "shared/ops/prepare_images.h"
#include "tests/gpu/gpu.h"
#include "tests/ops/test_batch.h"
#include "tests/ops/test_losses.h"
#include "tests/ops/test_tensors.h"

namespace retina {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf};
constexpr at::ScalarType kWideTypes[] = {at::kFloat, at::kDouble};
constexpr auto kLast = at::MemoryFormat::ChannelsLast;
constexpr at::MemoryFormat kFormats[] = {at::MemoryFormat::Contiguous, kLast};

class OpsOnGpu : public testing::Test {
 protected:
  void SetUp() override { RETINA_GPU_OR_SKIP(); }
};

// Sizes at which something begins or ends; a fake GPU is slow.
Shape counts() {
  if (is_fake_gpu()) return {0, 1, 63, 64, 65, 255, 256, 257, 600};
  return {0, 1, 63, 64, 65, 255, 256, 257, 1000, 4097, 120087};
}

at::ScalarType computed_type(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}
at::Tensor values(std::uint64_t seed, const Shape& shape, double low, double high) {
  return random_tensor({.seed = seed, .shape = shape, .low = low, .high = high});
}
// In low .. high - 1.
at::Tensor integers(std::uint64_t seed, const Shape& shape, double low, double high) {
  return values(seed, shape, low, high).floor().to(at::kLong);
}
// On whole pixels, so that they tie often; every seventh is there twice.
at::Tensor boxes(std::uint64_t seed, std::int64_t count, at::ScalarType type) {
  const at::Tensor numbers = torch::arange(count);
  return random_boxes({.seed = seed, .count = count})
      .round()
      .index_select(0, numbers - numbers.remainder(7).eq(3).to(at::kLong))
      .to(type);
}
// Of three images, the second without boxes.
at::Tensor offsets_of(std::int64_t box_count) {
  const std::int64_t most = box_count - box_count / 7;
  return torch::tensor({std::int64_t{0}, most, most, box_count});
}

// Of 0: the same bits. By the norm: gradients jump where a target's last bit of log decides.
struct Tolerance {
  double relative = 0, absolute = 0;
  bool by_norm = false;
};
void expect_close(const at::Tensor& found, const at::Tensor& expected, const Tolerance& tolerance) {
  ASSERT_EQ(found.sizes(), expected.sizes());
  const at::Tensor a = found.cpu().to(at::kDouble), b = expected.to(at::kDouble);
  if (tolerance.by_norm) {
    EXPECT_LE((a - b).norm().item<double>(),
              tolerance.relative * b.norm().item<double>() + tolerance.absolute);
  } else {
    EXPECT_TRUE(a.allclose(b, tolerance.relative, tolerance.absolute))
        << (a - b).abs().max().item<double>() << " apart";
  }
}

// Compares op(inputs) there and here, and that the inputs stay as they are.
template <class Op>
void compare(const Tensors& inputs, const Op& op, const std::vector<Tolerance>& tolerances = {}) {
  Tensors there;
  for (const at::Tensor& input : inputs) there.push_back(input.to(kGpu));
  const Tensors found = op(there), expected = op(inputs);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "result " << i);
    ASSERT_EQ(found[i].scalar_type(), expected[i].scalar_type());
    expect_close(found[i], expected[i], i < tolerances.size() ? tolerances[i] : Tolerance{});
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) EXPECT_TRUE(there[i].cpu().equal(inputs[i])) << i;
}

// --- Assigners and NMS ---------------------------------------------------------------------------

Tensors matched(const Tensors& x) {
  return {match_anchors(x[0], x[1], x[2], {.low_quality_matches = true}),
          match_anchors(x[0], x[1], x[2], {.low_quality_matches = false})};
}

TEST_F(OpsOnGpu, MatcherGivesTheSameMatches) {
  for (const at::ScalarType type : kWideTypes) {
    for (const std::int64_t anchor_count : counts()) {
      for (const std::int64_t box_count : {0, 1, 7, 256, 257}) {
        SCOPED_TRACE(testing::Message() << type << anchor_count << " anchors, " << box_count);
        compare({boxes(1, anchor_count, type), boxes(2, box_count, type), offsets_of(box_count)},
                matched);
      }
    }
  }
  compare(
      {boxes(1, 300, at::kFloat), boxes(2, 10'003, at::kFloat), torch::tensor({0L, 3L, 10'003L})},
      matched);
  compare({boxes(1, 100, at::kFloat), boxes(2, 0, at::kFloat), torch::tensor({0L})}, matched);
}

Tensors without_partial(const Tensors& x) {
  const at::Tensor matches = x[4].clone();
  ignore_partial_boxes(x[0], {.boxes = x[1], .offsets = x[2], .claims = x[3]}, matches);
  return {matches};
}

TEST_F(OpsOnGpu, PartialBoxesIgnoreTheSameAnchors) {
  for (const at::ScalarType type : kWideTypes) {
    for (const std::int64_t anchor_count : counts()) {
      for (const std::int64_t box_count : {0, 1, 7, 40}) {
        // Of an image without boxes, no claims.
        const at::Tensor start = integers(3, {3, anchor_count}, -2, 3),
                         claims = box_count == 0 ? torch::full_like(start, kBackground)
                                                 : integers(4, {3, anchor_count}, -2, 3);
        claims[1].fill_(kBackground);
        if (box_count < 7) claims[2].fill_(kBackground);
        SCOPED_TRACE(testing::Message() << type << anchor_count << " anchors, " << box_count);
        compare({boxes(1, anchor_count, type), boxes(2, box_count, type), offsets_of(box_count),
                 claims, start},
                without_partial);
      }
    }
  }
  // Half of an anchor is enough.
  compare({torch::tensor({{0.F, 0.F, 10.F, 10.F}}),
           torch::tensor({{0.F, 5.F, 10.F, 90.F}, {0.F, 5.001F, 10.F, 90.F}}),
           torch::tensor({0L, 1L, 2L}), torch::full({2, 1}, kBackground),
           torch::full({2, 1}, kBackground)},
          without_partial);
}

TEST_F(OpsOnGpu, AtssGivesTheSameMatches) {
  // Levels of less than 9 cells, of one row or column, of many cells.
  std::vector<PixelSize> sizes = {{32, 32}, {32, 416}, {416, 32}, {256, 416}};
  if (!is_fake_gpu()) sizes.push_back({800, 1344});
  for (const PixelSize& padded : sizes) {
    const auto grids = level_grids(padded);
    auto all = grid_anchors({.sizes = {32, 64, 128, 256, 512}, .offset = 0.5}, padded);
    const at::Tensor anchors = torch::from_blob(all.data(), {std::ssize(all), 4}).clone();
    for (const std::int64_t box_count : {0, 1, 7, is_fake_gpu() ? 300 : 10'000}) {
      const at::Tensor some =
          random_boxes({.seed = 2, .count = box_count, .extent = 400, .side = 300}).round();
      for (const at::ScalarType type : kWideTypes) {
        SCOPED_TRACE(testing::Message() << padded.height << " px, " << box_count << type);
        compare({anchors.to(type), some.to(type), offsets_of(box_count)}, [&](const Tensors& x) {
          return Tensors{atss_match_anchors(x[0], {grids.begin(), grids.end()}, x[1], x[2])};
        });
      }
    }
  }
}

TEST_F(OpsOnGpu, NmsKeepsTheSameBoxesInTheSameOrder) {
  const auto expect_same = [](at::ScalarType type, std::int64_t image_count, std::int64_t count) {
    SCOPED_TRACE(testing::Message() << type << image_count << " images, " << count << " boxes");
    compare({boxes(4, image_count * count, type).view({image_count, count, 4}),
             integers(6, {image_count, count}, -1, 3),
             // Ties.
             ((values(5, {count}, 0, 1) * 512).floor() / 512).to(type)},
            [image_count](const Tensors& x) {
              Tensors kept;
              for (const double threshold : {0.31, 0.5}) {
                kept.push_back(suppress_together(x[0], x[1], threshold));
                if (image_count == 1) {
                  kept.push_back(batched_nms(x[0][0], x[2], x[1][0].clamp_min(0), threshold));
                }
              }
              return kept;
            });
  };
  for (const at::ScalarType type : kWideTypes) {
    for (const std::int64_t count : counts()) {
      for (const std::int64_t images : {0, 1, 3}) {
        expect_same(type, images, std::min<std::int64_t>(count, 10'000));
      }
    }
  }
  expect_same(at::kFloat, 1, is_fake_gpu() ? 2000 : 10'000);
  // An IoU of 31 / 100 is an f32 above 0.31.
  compare({torch::tensor({{{0.F, 0.F, 100.F, 1.F}, {0.F, 0.F, 31.F, 1.F}}}),
           torch::zeros({1, 2}, at::kLong)},
          [](const Tensors& x) { return Tensors{suppress_together(x[0], x[1], 0.31)}; });
}

// --- Losses --------------------------------------------------------------------------------------

struct HeadSizes {
  std::int64_t image_count;
  Shape level_anchors;
  std::int64_t class_count;
};

// All matches are `match`, or any.
void compare_losses(at::ScalarType type, const HeadSizes& sizes,
                    const std::optional<std::int64_t>& match = {}) {
  constexpr std::int64_t kBoxes = 9;
  const std::int64_t images = sizes.image_count,
                     anchors = std::reduce(sizes.level_anchors.begin(), sizes.level_anchors.end());
  SCOPED_TRACE(testing::Message() << type << images << " images, " << anchors << " anchors, "
                                  << sizes.class_count << " classes");
  const at::ScalarType wide = computed_type(type);
  const at::Tensor matches =
      match ? torch::full({images, anchors}, *match) : integers(3, {images, anchors}, -2, kBoxes);
  const bool is_double = type == at::kDouble, is_16_bit = c10::isReducedFloatingType(type);
  const Tolerance sum = is_double ? Tolerance{1e-13, 1e-13} : Tolerance{5e-6, 1e-6},
                  gradient = is_double   ? Tolerance{1e-12, 1e-14}
                             : is_16_bit ? Tolerance{1e-2, 1e-6}
                                         : Tolerance{2e-5, 1e-6},
                  box_gradient = is_double   ? gradient
                                 : is_16_bit ? Tolerance{1e-2, 1e-6, true}
                                             : Tolerance{1e-4, 1e-6, true};
  std::vector<Tolerance> tolerances;
  for (int loss = 0; loss < 8; ++loss) {
    tolerances.insert(tolerances.end(), {sum, loss < 4 ? gradient : box_gradient});
  }
  compare(
      {matches, torch::arange(kBoxes).remainder(sizes.class_count),
       values(6, {images}, -1.5, 1.5).to(wide),
       random_boxes({.seed = 9, .count = anchors}).to(wide),
       random_boxes({.seed = 8, .count = kBoxes}).to(wide),
       values(7, {images, anchors, sizes.class_count}, -8, 8).to(type),
       values(10, {images, anchors, 4}, -1.5, 1.5).to(type)},
      [&](const Tensors& x) { return losses_of(x, sizes.level_anchors); }, tolerances);
}

TEST_F(OpsOnGpu, LossesGiveTheSameSumsAndGradients) {
  for (const std::int64_t count : counts()) {
    const std::int64_t first = (count + 2) / 3;
    const Shape levels = {first, 0, count - first, 0};  // some of them empty
    compare_losses(at::kFloat, {2, levels, 3});
    compare_losses(at::kDouble, {1, {count}, 3});
    compare_losses(at::kBFloat16, {1, levels, 20});
    compare_losses(at::kHalf, {1, levels, 20});
  }
  compare_losses(at::kFloat, {0, {5}, 3});
  compare_losses(at::kFloat, {1, {5}, 1});
  compare_losses(at::kFloat, {1, {300}, 3}, kIgnored);
  compare_losses(at::kFloat, {1, {300}, 3}, kBackground);
  // Each block takes more values than it has threads.
  compare_losses(at::kFloat, {1, {50'000, 12'000, 3000, 1000, 441}, 1});
}

// --- Operations of the network -------------------------------------------------------------------

TEST_F(OpsOnGpu, DropoutHasTheBitsOfTheCpu) {
  const DropoutDraw draw = {.seed = 7, .step = std::int64_t{1} << 31, .layer = 65535};
  for (const at::ScalarType type : kTypes) {
    for (const std::int64_t count : counts()) {
      for (const auto format : kFormats) {
        SCOPED_TRACE(testing::Message() << type << count << format);
        compare(
            {values(11, {3, 5, count, 1}, -2, 2).to(type).contiguous(format),
             torch::tensor({3L, 0L, 65535L})},
            [&](const Tensors& x) {
              const at::Tensor leaf = x[0].detach().requires_grad_(),
                               y = dropout(leaf, 0.3, x[1], draw);
              EXPECT_EQ(y.strides(), x[0].strides());
              return Tensors{y.detach(), torch::autograd::grad({y.sum(at::kDouble)}, {leaf})[0]};
            });
      }
    }
  }
}

// The same values, channels-last from an odd place in memory on: no 16 bytes can be read at once.
at::Tensor misaligned(const at::Tensor& x) {
  const at::Tensor memory = torch::empty({x.numel() + 1}, x.options()).slice(0, 1);
  return memory.view({x.size(0), x.size(2), x.size(3), x.size(1)}).permute({0, 3, 1, 2}).copy_(x);
}

struct After {
  bool bias, residual, relu;
};

// y and the gradients of what it is made of: x, a bias and a residual, and dy.
Tensors bias_relu_results(const Tensors& x, const After& after) {
  Tensors leaves = {x[0].detach().requires_grad_()};
  BiasRelu what = {.relu = after.relu};
  if (after.bias) leaves.push_back(what.bias = x[1].detach().requires_grad_());
  if (after.residual) leaves.push_back(what.residual = x[2].detach().requires_grad_());
  const at::Tensor y = bias_relu(leaves[0].clone(), what);  // in place
  Tensors results = torch::autograd::grad({y}, leaves, {x[3]});
  results.push_back(y.detach());
  if (after.bias) std::swap(results[1], results.back());
  return results;
}

void compare_bias_relu(at::ScalarType type, const Shape& shape, at::MemoryFormat format,
                       const After& after) {
  SCOPED_TRACE(testing::Message() << type << at::IntArrayRef(shape) << format << after.bias
                                  << after.residual << after.relu);
  const auto draw = [&](std::uint64_t seed) {
    return values(seed, shape, -2, 2).to(type).contiguous(format);
  };
  const Tensors inputs = {draw(1), values(3, {shape[1]}, -1, 1).to(computed_type(type)), draw(2),
                          draw(4)};
  std::vector<Tolerance> tolerances(4);
  if (after.bias) tolerances[after.residual ? 3 : 2] = {1e-5, 1e-4};  // its gradient
  compare(
      inputs, [&](const Tensors& x) { return bias_relu_results(x, after); }, tolerances);
}

TEST_F(OpsOnGpu, BiasReluHasTheBitsOfTheCpu) {
  for (const at::ScalarType type : kTypes) {
    // 3, 36: no whole packs of 16 bytes. One block of threads, and a value less and more.
    for (const std::int64_t channels : {1, 3, 4, 8, 16, 36, 200}) {
      for (const std::int64_t pixels : {0, 1, 37, 127, 128, 129, 257}) {
        for (const auto format : kFormats) {
          compare_bias_relu(type, {1, channels, pixels, 1}, format, {true, true, true});
        }
      }
      for (int options = 0; options < 8; ++options) {
        compare_bias_relu(type, {2, channels, 19, 1}, kLast,
                          {(options & 1) != 0, (options & 2) != 0, (options & 4) != 0});
      }
    }
    // Several chunks of rows; many tiles of columns.
    for (const Shape& shape : {Shape{1, 1, 32773, 1}, {1, 64, 517, 1}, {1, 2048, 67, 1}}) {
      compare_bias_relu(type, shape, kLast, {true, false, true});
    }
    const at::NoGradGuard no_gradients;
    compare({values(1, {1, 64, 19, 1}, -2, 2).to(type)}, [](const Tensors& x) {
      return Tensors{bias_relu(misaligned(x[0]), {.residual = misaligned(x[0])})};
    });
  }
}

TEST_F(OpsOnGpu, BiasReluHidesNoNanInGradientsAndTakesEmptyBatches) {
  const auto ones = [] { return torch::ones({2, 8, 5, 5}, kGpu).contiguous(kLast); };
  const at::Tensor x = ones(), dy = ones(), bias = torch::zeros({8}, kGpu);
  x[0][1][2][3] = std::numeric_limits<float>::quiet_NaN();
  dy[1][4][2][3] = std::numeric_limits<float>::quiet_NaN();
  const auto gradients = bias_relu_results({x, bias, x, dy}, {true, false, true});
  EXPECT_EQ(gradients[0].isnan().sum().item<std::int64_t>(), 1);
  EXPECT_EQ(gradients[2][1].item<float>(), 50);
  EXPECT_TRUE(gradients[2][4].isnan().item<bool>());
  const at::Tensor nothing = x.slice(0, 0, 0);
  const auto none = bias_relu_results({nothing, bias, nothing, nothing}, {true, false, true});
  EXPECT_TRUE(none[2].eq(0).all().item<bool>());
}

// --- Norms ---------------------------------------------------------------------------------------

// Of x, weight, bias and, where there is one, a residual: y and what else it gives.
using Norm = std::function<Tensors(const Tensors& inputs)>;

Norm group_norm(std::int64_t group_count) {
  return [=](const Tensors& x) {
    return Tensors{group_norm_relu(x[0], group_count, x[1], x[2], 1e-5)};
  };
}
Norm batch_norm(bool relu) {
  return [=](const Tensors& x) {
    const at::Tensor mean = torch::zeros_like(x[1]), var = torch::ones_like(x[1]);
    return Tensors{batch_norm_relu(x[0], {.weight = x[1],
                                          .bias = x[2],
                                          .running_mean = mean,
                                          .running_var = var,
                                          .residual = x.size() > 3 ? x[3] : at::Tensor(),
                                          .relu = relu}),
                   mean, var};
  };
}
// LibTorch's, without the ReLU.
Norm libtorch_group_norm(std::int64_t group_count) {
  return [=](const Tensors& x) {
    return Tensors{at::group_norm(x[0], group_count, x[1], x[2], 1e-5)};
  };
}
Tensors libtorch_batch_norm(const Tensors& x) {
  const at::Tensor mean = torch::zeros_like(x[1]), var = torch::ones_like(x[1]),
                   y = at::batch_norm(x[0], x[1], x[2], mean, var, /*training=*/true, 0.1, 1e-5,
                                      /*cudnn_enabled=*/false);
  return {x.size() > 3 ? y + x[3] : y, mean, var};
}

Tensors norm_inputs(at::ScalarType type, const Shape& shape, bool has_residual = false) {
  const at::ScalarType wide = computed_type(type);
  Tensors inputs = {values(31, shape, -2, 3).to(type), values(33, {shape[1]}, -1, 2).to(wide),
                    values(34, {shape[1]}, -1, 1).to(wide)};
  if (has_residual) inputs.push_back(values(35, shape, -1, 1).to(type));
  return inputs;
}
Tensors leaves_of(const Tensors& inputs,
                  const std::function<at::Tensor(const at::Tensor&)>& change) {
  Tensors leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(change(input).detach().requires_grad_());
  return leaves;
}
Tensors on_gpu(const Tensors& inputs) {
  return leaves_of(inputs, [](const at::Tensor& input) { return input.to(kGpu); });
}
// The gradients of the leaves, y, what else the norm gives.
Tensors results_of(const Norm& norm, const Tensors& leaves, const at::Tensor& dy) {
  const Tensors given = norm(leaves);
  Tensors results = torch::autograd::grad({given[0]}, leaves, {dy});
  results.insert(results.end(), given.begin(), given.end());
  return results;
}

// In f64, next to which a GPU's rounding is all there is.
void compare_norm(const Norm& norm, const Norm& libtorch, bool relu, const Tensors& inputs) {
  const at::ScalarType type = inputs[0].scalar_type();
  const auto expected_of = [&](const Tensors& x) {
    Tensors given = libtorch(x);
    if (relu) given[0] = given[0].relu();
    return given;
  };
  const Tensors exact =
      leaves_of(inputs, [](const at::Tensor& input) { return input.to(at::kDouble, false, true); });
  // Small where the last bits decide what the ReLU lets pass: nothing jumps.
  const at::Tensor dy =
      (values(32, inputs[0].sizes().vec(), -1, 1) * libtorch(exact)[0].detach()).to(type);
  const Tensors expected = results_of(expected_of, exact, dy.to(at::kDouble));
  for (const char* const memory : {"contiguous", "channels-last", "misaligned"}) {
    SCOPED_TRACE(memory);
    const auto format = memory[1] == 'o' ? at::MemoryFormat::Contiguous : kLast;
    const Tensors found = results_of(
        norm,
        leaves_of(inputs,
                  [&](const at::Tensor& input) {
                    const at::Tensor there = input.to(kGpu, /*non_blocking=*/false, /*copy=*/true);
                    if (there.dim() < 4) return there;
                    return memory[0] == 'm' ? misaligned(there) : there.contiguous(format);
                  }),
        dy.to(kGpu));
    EXPECT_TRUE(found[0].is_contiguous(format) && found[inputs.size()].is_contiguous(format));
    for (std::size_t i = 0; i < found.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "result " << i);
      const bool is_stored = found[i].dim() == 4, is_sum = i == 1 || i == 2;
      ASSERT_EQ(found[i].scalar_type(), is_stored ? type : inputs[1].scalar_type());
      // 16 bits differ by a last one where the f32 before them does; the gradients of weight and
      // bias are sums of up to 30,000 f32 values.
      const bool is_double = type == at::kDouble, is_16_bit = c10::isReducedFloatingType(type);
      expect_close(found[i], expected[i],
                   {is_double                ? 1e-10
                    : is_16_bit && is_stored ? 8e-3
                                             : 1e-5,
                    is_double ? 1e-10
                    : is_sum  ? 1e-3
                              : 2e-5});
    }
  }
}

TEST_F(OpsOnGpu, GroupNormGivesWhatLibTorchGives) {
  struct Sizes {
    Shape shape;
    std::int64_t group_count;
  };
  // Packs of 4 and more channels; single values; more columns than threads; a channel a group;
  // chunks of 32 and 128 pixels.
  std::vector<Sizes> all = {{{2, 16, 83, 100}, 2}, {{1, 3, 83, 100}, 1}};
  for (const auto& [channels, groups] : {std::pair(256, 32), std::pair(64, 2), std::pair(6, 2),
                                         std::pair(1536, 3), std::pair(72, 3), std::pair(5, 5)}) {
    for (const std::int64_t pixels : {1, 31, 33, 129})
      all.push_back({{2, channels, pixels, 1}, groups});
  }
  if (!is_fake_gpu()) all.insert(all.end(), {{{3, 256, 100, 100}, 32}, {{3, 72, 50, 51}, 3}});
  for (const at::ScalarType type : kTypes) {
    for (const auto& [shape, groups] : all) {
      SCOPED_TRACE(testing::Message() << type << at::IntArrayRef(shape) << groups);
      compare_norm(group_norm(groups), libtorch_group_norm(groups), true, norm_inputs(type, shape));
    }
  }
}

TEST_F(OpsOnGpu, BatchNormGivesWhatLibTorchGives) {
  // Single values; one column; less than a tile of columns, an uneven number, several; a row, and
  // several chunks of them. Not two, which may be so near that f32 has no digits of their gradient.
  std::vector<Shape> shapes = {{3, 1, 1, 1},     {1, 1, 32773, 1}, {1, 3, 39, 1},
                               {3, 8, 37, 37},   {1, 12, 37, 1},   {1, 64, 517, 1},
                               {1, 200, 197, 1}, {7, 2048, 1, 1},  {1, 2048, 67, 1}};
  if (!is_fake_gpu()) shapes.insert(shapes.end(), {{3, 64, 50, 50}, {2, 2048, 7, 13}});
  for (const at::ScalarType type : kTypes) {
    for (const Shape& shape : shapes) {
      for (const bool has_residual : {false, true}) {
        for (const bool relu : {false, true}) {
          SCOPED_TRACE(testing::Message()
                       << type << at::IntArrayRef(shape) << has_residual << relu);
          compare_norm(batch_norm(relu), libtorch_batch_norm, relu,
                       norm_inputs(type, shape, has_residual));
        }
      }
    }
  }
}

TEST_F(OpsOnGpu, NormsLoseNothingToALargeMeanOrAFarValue) {
  for (const bool is_far : {false, true}) {
    Tensors inputs = norm_inputs(at::kFloat, {2, 64, 25, 25});
    inputs[0] = (inputs[0] + 1000).contiguous(kLast);
    if (is_far) inputs[0].slice(2, 0, 1).slice(3, 0, 1).fill_(-1e4);  // the first pixels
    const Tensors exact = leaves_of(inputs, [](const at::Tensor& x) { return x.to(at::kDouble); });
    expect_close(batch_norm(false)(on_gpu(inputs))[0].detach(),
                 libtorch_batch_norm(exact)[0].detach(), {1e-5, 6e-5});
    expect_close(group_norm(8)(on_gpu(inputs))[0].detach(),
                 libtorch_group_norm(8)(exact)[0].relu().detach(), {1e-5, 6e-5});
  }
}

TEST_F(OpsOnGpu, NormsHideNoNanAndTakeEmptyBatches) {
  const Tensors inputs = norm_inputs(at::kBFloat16, {2, 256, 5, 5}),
                empty = norm_inputs(at::kBFloat16, {0, 256, 5, 5});
  inputs[0][1][8][2][3] = std::numeric_limits<double>::quiet_NaN();
  const at::Tensor of_groups = group_norm(32)(on_gpu(inputs))[0],
                   of_channels = batch_norm(true)(on_gpu(inputs))[0];
  EXPECT_EQ(of_groups.isnan().sum().item<std::int64_t>(), 8 * 25);
  EXPECT_TRUE(of_groups[1].slice(0, 8, 16).isnan().all().item<bool>());
  EXPECT_EQ(of_channels.isnan().sum().item<std::int64_t>(), 2 * 25);
  EXPECT_TRUE(of_channels.slice(1, 8, 9).isnan().all().item<bool>());
  for (const Norm& norm : {group_norm(32), batch_norm(true)}) {
    const Tensors results = results_of(norm, on_gpu(empty), empty[0].to(kGpu));
    EXPECT_EQ(results[0].sizes(), empty[0].sizes());
    EXPECT_TRUE(results[1].eq(0).all().item<bool>() && results[2].eq(0).all().item<bool>());
  }
}

TEST_F(OpsOnGpu, SumsHaveTheSameBitsEveryTimeAndGroupNormsInAnyBatch) {
  const Tensors inputs = on_gpu(norm_inputs(at::kBFloat16, {3, 64, 40, 40}, true));
  const Tensors x = {inputs[0].contiguous(kLast), inputs[1], inputs[2]};
  const at::Tensor dy = inputs[3].detach();
  const Tensors heads = {integers(3, {2, 4097}, -2, 4).to(kGpu),
                         torch::arange(4).remainder(3).to(kGpu),
                         torch::ones({2}, kGpu),
                         boxes(1, 4097, at::kFloat).to(kGpu),
                         boxes(2, 4, at::kFloat).to(kGpu),
                         values(7, {2, 4097, 3}, -8, 8).to(kGpu, at::kFloat),
                         values(8, {2, 4097, 4}, -1, 1).to(kGpu, at::kFloat)};
  const auto all = [&] {
    Tensors results = results_of(group_norm(8), x, dy);
    for (const Tensors& more : {results_of(batch_norm(true), inputs, dy),
                                bias_relu_results({x[0], x[2], x[0], dy}, {true, true, true}),
                                losses_of(heads, {4097})}) {
      results.insert(results.end(), more.begin(), more.end());
    }
    return results;
  };
  const Tensors first = all();
  for (int run = 0; run < (is_fake_gpu() ? 1 : 5); ++run) {
    const Tensors again = all();
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(again[i].equal(first[i])) << i;
  }
  const Tensors one =
      results_of(group_norm(8), {x[0].detach().slice(0, 1, 2).requires_grad_(), x[1], x[2]},
                 dy.slice(0, 1, 2));
  for (const std::size_t i : {0, 3}) EXPECT_TRUE(one[i].equal(first[i].slice(0, 1, 2))) << i;
}

TEST_F(OpsOnGpu, BatchNormGivesGradientsToWhatWantsThem) {
  const Tensors inputs = on_gpu(norm_inputs(at::kFloat, {2, 6, 5, 4}, true));
  const at::Tensor dy = values(32, {2, 6, 5, 4}, -1, 1).to(kGpu, at::kFloat);
  const Tensors all = results_of(batch_norm(true), inputs, dy);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensors one;
    for (const at::Tensor& input : inputs) one.push_back(input.detach());
    one[i].requires_grad_();
    const at::Tensor y = batch_norm(true)(one)[0];
    EXPECT_TRUE(torch::autograd::grad({y}, {one[i]}, {dy})[0].equal(all[i])) << i;
  }
}

TEST_F(OpsOnGpu, NormsRefuseToDifferentiateTheirGradients) {
  for (const Norm& norm : {group_norm(2), batch_norm(true)}) {
    const Tensors inputs = on_gpu(norm_inputs(at::kFloat, {1, 6, 2, 2}));
    EXPECT_THROW(torch::autograd::grad({norm(inputs)[0].sum()}, {inputs[0]}, {},
                                       /*retain_graph=*/true, /*create_graph=*/true),
                 Error);
  }
}

// --- Images --------------------------------------------------------------------------------------

TEST_F(OpsOnGpu, ImagesHaveTheBitsOfTheCpu) {
  for (const bool warped : {false, true}) {
    TestBatch batch = test_batch(warped);
    batch.rows[3].source_of[2] = 1e300;
    batch.rows[4].source_of[0] = std::numeric_limits<double>::quiet_NaN();
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      for (const int width : {160, 163}) {
        SCOPED_TRACE(testing::Message() << warped << type << width);
        compare({batch.block(), batch.table()}, [&](const Tensors& x) {
          return Tensors{prepare_images(x[0], x[1], {.padded = {width, 129}, .type = type})};
        });
      }
    }
  }
}

}  // namespace
}  // namespace retina
