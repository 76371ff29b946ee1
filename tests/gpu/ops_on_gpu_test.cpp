// Each CUDA kernel against its CPU twin on random tensors, from nothing to more anchors than a
// 1333 px image has. Matcher and NMS must agree in every element; sums and gradients of the losses
// differ by the last bits of exp and log and what these decide.
#include <ATen/core/Tensor.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/group_norm.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <cstdint>
#include <limits>
#include <ostream>
#include <vector>

#include "shared/ops/atss.h"
#include "shared/ops/batch_norm.h"
#include "shared/ops/bias_relu.h"
#include "shared/ops/dropout.h"
#include "shared/ops/group_norm.h"
#include "shared/ops/head_losses.h"
#include "shared/ops/matcher.h"
#include "shared/ops/nms.h"
#include "shared/ops/partial_boxes.h"
#include "shared/ops/prepare_images.h"
#include "tests/gpu/gpu.h"
#include "tests/ops/test_batch.h"
#include "tests/ops/test_tensors.h"

namespace retina {
namespace {

constexpr std::int64_t kCounts[] = {0, 1, 2, 63, 64, 65, 255, 257, 1000, 4097, 120087};

struct Case {
  at::ScalarType type;
  std::int64_t count;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << at::toString(c.type) << c.count;
  }
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    for (const std::int64_t count : kCounts) cases.push_back({type, count});
  }
  return cases;
}

class OpsOnGpu : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { RETINA_TEST_DEVICE_OR_SKIP(); }

  // Boxes on whole pixels tie often.
  static at::Tensor boxes(std::uint64_t seed, std::int64_t count) {
    return random_boxes({.seed = seed, .count = count}).round().to(GetParam().type);
  }
  static at::Tensor values(std::uint64_t seed, std::vector<std::int64_t> shape, double size) {
    return random_tensor({.seed = seed, .shape = std::move(shape), .low = -size, .high = size})
        .to(GetParam().type);
  }
  // In low .. high - 1.
  static at::Tensor integers(std::uint64_t seed, std::vector<std::int64_t> shape, double low,
                             double high) {
    return random_tensor({.seed = seed, .shape = std::move(shape), .low = low, .high = high})
        .floor()
        .to(at::kLong);
  }
  // Background, ignored, or one of `box_count` boxes; [2, count].
  static at::Tensor some_matches(std::int64_t box_count) {
    return integers(3, {2, GetParam().count}, -2, static_cast<double>(box_count));
  }

  // Under uneven weights, of outputs on two levels; sums and gradient on the CPU, wide.
  struct Result {
    at::Tensor sums, gradient;
  };
  static std::vector<at::Tensor> levels(const at::Tensor& all) {
    const std::int64_t first = 1 + all.size(1) / 3;
    return {all.slice(1, 0, first), all.slice(1, first)};
  }
  static at::Tensor weights(const at::Tensor& values) {
    return torch::tensor(
        {0.7, -1.3},
        values.options().dtype(values.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
  }
  static Result on_cpu(const LossSums& loss) {
    return {loss.sums.cpu().to(at::kDouble), torch::cat(loss.gradients, 1).cpu().to(at::kDouble)};
  }
  static void expect_close(const Result& gpu, const Result& cpu) {
    const bool is_float = GetParam().type == at::kFloat;
    const double relative = is_float ? 2e-6 : 1e-13, absolute = is_float ? 1e-6 : 1e-14;
    EXPECT_TRUE(gpu.sums.allclose(cpu.sums, relative, absolute)) << gpu.sums << cpu.sums;
    EXPECT_TRUE(gpu.gradient.allclose(cpu.gradient, 10 * relative, absolute))
        << (gpu.gradient - cpu.gradient).abs().max();
  }
  // By the norm: L1's and smooth L1's gradients jump or rise steeply where a target's last bit of
  // log decides. Each element is compared in f64.
  static void expect_close_by_norm(const Result& gpu, const Result& cpu) {
    if (GetParam().type == at::kDouble) return expect_close(gpu, cpu);
    EXPECT_TRUE(gpu.sums.allclose(cpu.sums, 1e-5, 1e-6)) << gpu.sums << cpu.sums;
    EXPECT_LE((gpu.gradient - cpu.gradient).norm().item<double>(),
              1e-4 * cpu.gradient.norm().item<double>() + 1e-6);
  }
};

TEST_P(OpsOnGpu, MatcherGivesTheSameMatches) {
  const at::Tensor anchors = boxes(1, GetParam().count);
  for (const std::int64_t box_count : {0, 1, 7, 256, 600}) {
    const at::Tensor targets = boxes(2, box_count);
    for (const bool low_quality : {true, false}) {
      const MatchOptions options = {.low_quality_matches = low_quality};
      // Two tiles of boxes and a part of one, no box, a part of one.
      const at::Tensor offsets = torch::tensor(
          {std::int64_t{0}, box_count - box_count / 7, box_count - box_count / 7, box_count});
      EXPECT_TRUE(match_anchors(anchors.to(test_device()), targets.to(test_device()),
                                offsets.to(test_device()), options)
                      .cpu()
                      .equal(match_anchors(anchors, targets, offsets, options)))
          << box_count << " boxes, low quality " << low_quality;
    }
  }
}

TEST_P(OpsOnGpu, PartialBoxesIgnoreTheSameAnchors) {
  const at::Tensor anchors = boxes(1, GetParam().count), partial = boxes(2, 40);
  const at::Tensor offsets = torch::tensor({0L, 30L, 30L, 40L});
  const at::Tensor start = torch::arange(3 * anchors.size(0)).view({3, -1}).remainder(5) - 2;
  at::Tensor claims = start.flip(1).contiguous();
  claims[1].fill_(kBackground);
  const auto matches_on = [&](c10::Device device) {
    const at::Tensor matches = start.clone().to(device), there = partial.to(device),
                     offsets_there = offsets.to(device), claims_there = claims.to(device);
    ignore_partial_boxes(anchors.to(device),
                         {.boxes = there, .offsets = offsets_there, .claims = claims_there},
                         matches);
    return matches.cpu();
  };
  EXPECT_TRUE(matches_on(test_device()).equal(matches_on(c10::kCPU)));
}

TEST_P(OpsOnGpu, NmsKeepsTheSameBoxesInTheSameOrder) {
  const std::int64_t count = std::min<std::int64_t>(GetParam().count, 20000);
  const at::Tensor all = boxes(4, count);
  const at::Tensor scores = (values(5, {count}, 1) * 512).floor() / 512;  // ties
  const at::Tensor labels = integers(6, {count}, 0, 3);
  for (const double threshold : {0.31, 0.5}) {
    for (const at::Tensor& classes : {labels, torch::zeros_like(labels)}) {
      EXPECT_TRUE(batched_nms(all.to(test_device()), scores.to(test_device()),
                              classes.to(test_device()), threshold)
                      .cpu()
                      .equal(batched_nms(all, scores, classes, threshold)));
    }
  }
}

TEST_P(OpsOnGpu, FocalLossGivesTheSameSumsAndGradients) {
  const at::Tensor matches = some_matches(4), labels = torch::tensor({2L, 0L, 1L, 1L});
  const at::Tensor logits = values(7, {2, GetParam().count, 3}, 8);
  for (const FocalOptions options :
       {FocalOptions{.alpha = 0.25, .gamma = 2}, FocalOptions{.alpha = 0.6, .gamma = 1.5}}) {
    const at::Tensor there = logits.to(test_device());
    expect_close(on_cpu(focal_loss(levels(there), matches.to(test_device()),
                                   labels.to(test_device()), weights(there), options)),
                 on_cpu(focal_loss(levels(logits), matches, labels, weights(logits), options)));
  }
}

TEST_P(OpsOnGpu, FocalLossReadsAndWrites16Bit) {
  const at::Tensor matches = some_matches(4), labels = torch::tensor({2L, 0L, 1L, 1L});
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const at::Tensor logits = values(7, {2, GetParam().count, 3}, 8).to(type);
    const at::Tensor there = logits.to(test_device());
    const Result gpu = on_cpu(focal_loss(levels(there), matches.to(test_device()),
                                         labels.to(test_device()), weights(there), FocalOptions())),
                 cpu = on_cpu(
                     focal_loss(levels(logits), matches, labels, weights(logits), FocalOptions()));
    EXPECT_TRUE(gpu.sums.allclose(cpu.sums, 2e-6, 1e-6)) << type;
    EXPECT_TRUE(gpu.gradient.allclose(cpu.gradient, 1e-2, 1e-6)) << type;
  }
}

TEST_P(OpsOnGpu, BoxLossesGiveTheSameSumsAndGradients) {
  constexpr std::int64_t kBoxes = 9;
  const at::Tensor matches = some_matches(kBoxes), targets = boxes(8, kBoxes),
                   anchors = boxes(9, GetParam().count),
                   deltas = values(10, {2, GetParam().count, 4}, 1.5);
  for (const BoxLossOptions options :
       {BoxLossOptions{}, BoxLossOptions{.kind = BoxLossKind::kSmoothL1, .target_std = 0.2},
        BoxLossOptions{.kind = BoxLossKind::kGiou}, BoxLossOptions{.kind = BoxLossKind::kCiou}}) {
    SCOPED_TRACE(static_cast<int>(options.kind));
    const at::Tensor there = deltas.to(test_device());
    expect_close_by_norm(
        on_cpu(box_loss(levels(there), anchors.to(test_device()), targets.to(test_device()),
                        matches.to(test_device()), weights(there), options)),
        on_cpu(box_loss(levels(deltas), anchors, targets, matches, weights(deltas), options)));
  }
}

TEST_P(OpsOnGpu, QualityLossesGiveTheSameSumsAndGradients) {
  constexpr std::int64_t kBoxes = 9;
  const at::Tensor matches = some_matches(kBoxes), targets = boxes(8, kBoxes),
                   anchors = boxes(9, GetParam().count),
                   labels = torch::arange(kBoxes, at::kLong).remainder(3),
                   logits = values(7, {2, GetParam().count, 3}, 8),
                   deltas = values(10, {2, GetParam().count, 4}, 1.5);
  for (const ClassLossKind kind : {ClassLossKind::kQualityFocal, ClassLossKind::kVarifocal}) {
    SCOPED_TRACE(static_cast<int>(kind));
    const auto on = [&](c10::Device device) {
      const std::vector<at::Tensor> shifts = levels(deltas.to(device));
      const at::Tensor there = logits.to(device), from = anchors.to(device),
                       truth = targets.to(device);
      return on_cpu(quality_loss(levels(there), {.deltas = shifts, .anchors = from, .boxes = truth},
                                 matches.to(device), labels.to(device), weights(there), kind));
    };
    expect_close(on(test_device()), on(at::kCPU));
  }
}

TEST_P(OpsOnGpu, LossesHaveTheSameBitsEveryTime) {
  const at::Tensor matches = some_matches(4).to(test_device()),
                   labels = torch::tensor({2L, 0L, 1L, 1L}).to(test_device());
  const at::Tensor logits = values(7, {2, GetParam().count, 3}, 8).to(test_device());
  const auto sums = [&] {
    return focal_loss({logits}, matches, labels, weights(logits), FocalOptions()).sums;
  };
  const at::Tensor first = sums();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(first.equal(sums()));
}

INSTANTIATE_TEST_SUITE_P(Sizes, OpsOnGpu, testing::ValuesIn(all_cases()),
                         testing::PrintToStringParamName());

TEST(AtssOnGpu, GivesTheSameMatches) {
  RETINA_TEST_DEVICE_OR_SKIP();
  for (const PixelSize padded : {PixelSize{32, 32}, PixelSize{256, 416}, PixelSize{800, 1344}}) {
    const auto grids = level_grids(padded);
    std::vector<AnchorBox> all =
        grid_anchors({.sizes = {32, 64, 128, 256, 512}, .offset = 0.5}, padded);
    const at::Tensor anchors =
        torch::from_blob(all.data(), {static_cast<std::int64_t>(all.size()), 4}).clone();
    for (const std::int64_t box_count : {0, 1, 7, 600, 10'000}) {
      const at::Tensor boxes =
          random_boxes({.seed = 2, .count = box_count, .extent = 900, .side = 300}).round();
      const at::Tensor offsets =
          torch::tensor({std::int64_t{0}, std::int64_t{0}, box_count - box_count / 7, box_count});
      for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
        const auto on = [&](c10::Device device) {
          return atss_match_anchors(anchors.to(device, type), {grids.begin(), grids.end()},
                                    boxes.to(device, type), offsets.to(device))
              .cpu();
        };
        EXPECT_TRUE(on(test_device()).equal(on(at::kCPU))) << box_count << " boxes " << type;
      }
    }
  }
}

TEST(DropoutOnGpu, HasTheBitsOfTheCpu) {
  RETINA_TEST_DEVICE_OR_SKIP();
  const DropoutDraw draw = {.seed = 7, .step = std::int64_t{1} << 31, .layer = 2};
  const at::Tensor slots = torch::tensor({3L, 0L, 65535L});
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      const at::Tensor x =
          random_tensor({.seed = 11, .shape = {3, 37, 29, 31}, .low = -2, .high = 2})
              .to(type)
              .contiguous(format);
      const at::Tensor here = x.detach().requires_grad_(),
                       there = x.to(test_device()).requires_grad_();
      const at::Tensor expected = dropout(here, 0.3, slots, draw),
                       found = dropout(there, 0.3, slots.to(test_device()), draw);
      EXPECT_TRUE(found.is_contiguous(format));
      EXPECT_TRUE(found.cpu().equal(expected)) << at::toString(type);
      expected.sum().backward();
      found.sum().backward();
      EXPECT_TRUE(there.grad().cpu().equal(here.grad())) << at::toString(type);
    }
  }
}

TEST(BiasReluOnGpu, HasTheBitsOfTheCpu) {
  RETINA_TEST_DEVICE_OR_SKIP();
  // 36, 15: no whole vectors of 16 bytes a pixel.
  for (const std::int64_t channels : {256, 720, 36, 15, 8}) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
      for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
        const auto draw = [&](std::uint64_t seed) {
          return random_tensor({.seed = seed, .shape = {3, channels, 13, 29}, .low = -2, .high = 2})
              .to(type)
              .contiguous(format);
        };
        const at::Tensor bias = random_tensor({.seed = 3, .shape = {channels}, .low = -1})
                                    .to(type == at::kDouble ? at::kDouble : at::kFloat);
        for (const bool residual : {false, true}) {
          for (const bool relu : {false, true}) {
            const auto results_on = [&](c10::Device device) {
              const at::Tensor x = draw(1).to(device).requires_grad_(),
                               shift = bias.detach()
                                           .to(device, /*non_blocking=*/false, /*copy=*/true)
                                           .requires_grad_(),
                               other = draw(2).to(device).requires_grad_();
              const at::Tensor y = bias_relu(
                  x.clone(),
                  {.bias = shift, .residual = residual ? other : at::Tensor(), .relu = relu});
              y.backward(draw(4).to(device));
              return std::vector<at::Tensor>{y.detach().cpu(), x.grad().cpu(), shift.grad().cpu()};
            };
            const auto gpu = results_on(test_device()), cpu = results_on(c10::kCPU);
            EXPECT_TRUE(gpu[0].equal(cpu[0])) << channels << at::toString(type) << residual << relu;
            EXPECT_TRUE(gpu[1].equal(cpu[1])) << channels << at::toString(type) << residual << relu;
            EXPECT_TRUE(gpu[2].allclose(cpu[2], 1e-5, 1e-4)) << channels << at::toString(type);
          }
        }
      }
    }
  }
}

// At x and at a bias of 0.
std::vector<at::Tensor> bias_relu_gradients(const at::Tensor& x, const at::Tensor& dy) {
  const at::Tensor leaf = x.detach().requires_grad_(),
                   bias = torch::zeros({x.size(1)}, test_device()).requires_grad_();
  return torch::autograd::grad({bias_relu(leaf.clone(), {.bias = bias})}, {leaf, bias}, {dy});
}

TEST(BiasReluOnGpu, HidesNoNanInGradientsAndTakesEmptyBatches) {
  RETINA_TEST_DEVICE_OR_SKIP();
  const auto ones = [] {
    return torch::ones({2, 8, 5, 5}, test_device()).contiguous(at::MemoryFormat::ChannelsLast);
  };
  const at::Tensor x = ones(), dy = ones();
  x[0][1][2][3] = std::numeric_limits<float>::quiet_NaN();
  dy[1][4][2][3] = std::numeric_limits<float>::quiet_NaN();
  const auto gradients = bias_relu_gradients(x, dy);
  EXPECT_EQ(gradients[0].isnan().sum().item<std::int64_t>(), 1);
  EXPECT_EQ(gradients[1][1].item<float>(), 50);
  EXPECT_TRUE(gradients[1][4].isnan().item<bool>());
  const at::Tensor nothing = x.slice(0, 0, 0);
  EXPECT_TRUE(bias_relu_gradients(nothing, nothing)[1].eq(0).all().item<bool>());
}

TEST(BiasReluOnGpu, HasTheSameGradientsEveryTime) {
  RETINA_TEST_DEVICE_OR_SKIP();
  const auto draw = [](std::uint64_t seed) {
    return random_tensor({.seed = seed, .shape = {3, 256, 50, 50}, .low = -1, .high = 1})
        .to(test_device(), at::kBFloat16)
        .contiguous(at::MemoryFormat::ChannelsLast);
  };
  const at::Tensor x = draw(5), dy = draw(6);
  const auto first = bias_relu_gradients(x, dy);
  for (int run = 0; run < 5; ++run) {
    const auto again = bias_relu_gradients(x, dy);
    EXPECT_TRUE(again[0].equal(first[0]) && again[1].equal(first[1]));
  }
}

// x and dy [N, C, H, W], f32 (f64 where x is) weight and bias [C].
struct NormInputs {
  at::Tensor x, dy, weight, bias;

  NormInputs to(c10::Device device) const {
    return {x.to(device), dy.to(device), weight.to(device), bias.to(device)};
  }
  // What a GPU is compared with, in f64: LibTorch rounds more often on a CPU.
  NormInputs exact() const {
    return {x.to(at::kDouble), dy.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble)};
  }
};

NormInputs norm_inputs(at::ScalarType type, const std::vector<std::int64_t>& shape) {
  const at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
  const std::vector<std::int64_t> channels = {shape[1]};
  return {
      random_tensor({.seed = 31, .shape = shape, .low = -2, .high = 3}).to(type),
      random_tensor({.seed = 32, .shape = shape, .low = -1, .high = 1}).to(type),
      random_tensor({.seed = 33, .shape = channels, .low = -1, .high = 2}).to(wide),
      random_tensor({.seed = 34, .shape = channels, .low = -1, .high = 1}).to(wide),
  };
}

// y, dx, dweight, dbias.
std::vector<at::Tensor> norm_results(const NormInputs& inputs, std::int64_t group_count) {
  const at::Tensor x = inputs.x.detach().requires_grad_(),
                   weight = inputs.weight.detach().requires_grad_(),
                   bias = inputs.bias.detach().requires_grad_();
  const at::Tensor y = group_norm_relu(x, group_count, weight, bias, 1e-5);
  const auto gradients = torch::autograd::grad({y}, {x, weight, bias}, {inputs.dy});
  return {y.detach(), gradients[0], gradients[1], gradients[2]};
}

// The same values, channels-last from an odd place in memory on: no 16 bytes can be read at once.
at::Tensor misaligned(const at::Tensor& x) {
  const at::Tensor memory = torch::empty({x.numel() + 1}, x.options()).slice(0, 1);
  const at::Tensor out =
      memory.view({x.size(0), x.size(2), x.size(3), x.size(1)}).permute({0, 3, 1, 2});
  return out.copy_(x);
}

struct NormSizes {
  std::int64_t channel_count, group_count, height, width;
};
constexpr NormSizes kNormSizes[] = {{256, 32, 1, 1},   {256, 32, 7, 7},   {256, 32, 13, 13},
                                    {256, 32, 25, 25}, {256, 32, 50, 50}, {256, 32, 100, 100},
                                    {6, 2, 1, 1},      {6, 2, 7, 7},      {6, 2, 31, 33},
                                    {6, 2, 100, 100},  {1536, 3, 9, 10},  {72, 3, 50, 51}};

TEST(GroupNormOnGpu, GivesWhatTheCpuGives) {
  RETINA_GPU_OR_SKIP();
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    for (const NormSizes& sizes : kNormSizes) {
      NormInputs inputs = norm_inputs(type, {3, sizes.channel_count, sizes.height, sizes.width});
      // Small where the value before the ReLU is: where its last bits decide what passes, nothing
      // jumps.
      NormInputs negative = inputs;
      negative.weight = -inputs.weight.detach();
      negative.bias = -inputs.bias.detach();
      inputs.dy = inputs.dy * (norm_results(inputs, sizes.group_count)[0] -
                               norm_results(negative, sizes.group_count)[0]);
      const std::vector<at::Tensor> expected = norm_results(inputs.exact(), sizes.group_count);
      for (const char* const memory : {"contiguous", "channels-last", "misaligned"}) {
        SCOPED_TRACE(testing::Message()
                     << at::toString(type) << " " << sizes.channel_count << " channels, "
                     << sizes.height << " x " << sizes.width << ", " << memory);
        NormInputs there = inputs.to(test_device());
        auto format = at::MemoryFormat::ChannelsLast;
        if (memory[1] == 'o') format = at::MemoryFormat::Contiguous;
        there.x = memory[0] == 'm' ? misaligned(there.x) : there.x.contiguous(format);
        const std::vector<at::Tensor> found = norm_results(there, sizes.group_count);
        EXPECT_TRUE(found[0].is_contiguous(format) && found[1].is_contiguous(format));
        for (std::size_t i = 0; i < found.size(); ++i) {
          ASSERT_EQ(found[i].scalar_type(), i < 2 ? type : inputs.weight.scalar_type());
          // 16 bits differ by a last one where the f32 before them does; the gradients of weight
          // and bias are sums of up to 30,000 f32 values.
          const bool is_sum = i >= 2;
          const bool is_double = type == at::kDouble;
          const double relative = is_double                                     ? 1e-11
                                  : c10::isReducedFloatingType(type) && !is_sum ? 8e-3
                                                                                : 1e-5;
          const double absolute = is_double ? 1e-11 : is_sum ? 1e-3 : 2e-5;
          const at::Tensor a = found[i].cpu().to(at::kDouble), b = expected[i].to(at::kDouble);
          EXPECT_TRUE(a.allclose(b, relative, absolute))
              << "result " << i << ": " << (a - b).abs().max().item<double>();
        }
      }
    }
  }
}

TEST(GroupNormOnGpu, LosesNothingToALargeMeanOrAFarValue) {
  RETINA_GPU_OR_SKIP();
  for (const bool is_far : {false, true}) {
    NormInputs inputs = norm_inputs(at::kFloat, {2, 256, 50, 50});
    inputs.x = (inputs.x + 1000).contiguous(at::MemoryFormat::ChannelsLast);
    if (is_far) inputs.x.slice(2, 0, 1).slice(3, 0, 1).fill_(-1e4);  // the first pixels
    const at::Tensor expected =
        at::group_norm(inputs.x.to(at::kDouble), 32, inputs.weight.to(at::kDouble),
                       inputs.bias.to(at::kDouble), 1e-5)
            .relu();
    const at::Tensor found = norm_results(inputs.to(test_device()), 32)[0].cpu().to(at::kDouble);
    EXPECT_TRUE(found.allclose(expected, 1e-5, 6e-5))
        << is_far << ": " << (found - expected).abs().max().item<double>();
  }
}

TEST(GroupNormOnGpu, HidesNoNanAndTakesEmptyBatches) {
  RETINA_TEST_DEVICE_OR_SKIP();
  const NormInputs inputs = norm_inputs(at::kBFloat16, {2, 256, 5, 5});
  inputs.x[1][8][2][3] = std::numeric_limits<double>::quiet_NaN();
  const at::Tensor y = norm_results(inputs.to(test_device()), 32)[0];
  EXPECT_EQ(y.isnan().sum().item<std::int64_t>(), 8 * 25);
  EXPECT_TRUE(y[1].slice(0, 8, 16).isnan().all().item<bool>());
  const std::vector<at::Tensor> empty =
      norm_results(norm_inputs(at::kBFloat16, {0, 256, 5, 5}).to(test_device()), 32);
  EXPECT_EQ(empty[1].numel(), 0);
  EXPECT_TRUE(empty[2].eq(0).all().item<bool>() && empty[3].eq(0).all().item<bool>());
}

TEST(GroupNormOnGpu, HasTheSameBitsEveryTimeAndInAnyBatch) {
  RETINA_TEST_DEVICE_OR_SKIP();
  NormInputs inputs = norm_inputs(at::kBFloat16, {3, 256, 50, 50}).to(test_device());
  inputs.x = inputs.x.contiguous(at::MemoryFormat::ChannelsLast);
  const std::vector<at::Tensor> first = norm_results(inputs, 32);
  for (int run = 0; run < 5; ++run) {
    const std::vector<at::Tensor> again = norm_results(inputs, 32);
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(again[i].equal(first[i])) << i;
  }
  inputs.x = inputs.x.slice(0, 1, 2);
  inputs.dy = inputs.dy.slice(0, 1, 2);
  const std::vector<at::Tensor> one = norm_results(inputs, 32);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(one[i].equal(first[i].slice(0, 1, 2))) << i;
}

// y, the running statistics, and the gradients of x, weight, bias and, where there is one, the
// residual.
std::vector<at::Tensor> batch_norm_results(const NormInputs& inputs, const at::Tensor& residual,
                                           bool relu) {
  const at::Tensor x = inputs.x.detach().requires_grad_(),
                   weight = inputs.weight.detach().requires_grad_(),
                   bias = inputs.bias.detach().requires_grad_(),
                   running_mean = torch::zeros_like(weight), running_var = torch::ones_like(weight);
  BatchNorm norm = {.weight = weight,
                    .bias = bias,
                    .running_mean = running_mean,
                    .running_var = running_var,
                    .relu = relu};
  std::vector<at::Tensor> leaves = {x, weight, bias};
  if (residual.defined()) {
    norm.residual = residual.detach().requires_grad_();
    leaves.push_back(norm.residual);
  }
  const at::Tensor y = batch_norm_relu(x, norm);
  std::vector<at::Tensor> results = {y.detach(), running_mean, running_var};
  for (const at::Tensor& gradient : torch::autograd::grad({y}, leaves, {inputs.dy})) {
    results.push_back(gradient);
  }
  return results;
}

// From a pixel of a batch to several chunks of rows; single values, part of a tile, whole tiles.
const std::vector<std::vector<std::int64_t>> kBatchNormShapes = {
    {2, 1, 1, 1},     {1, 3, 31, 33},   {3, 8, 50, 51},  {3, 64, 50, 50},
    {2, 200, 25, 25}, {2, 256, 25, 25}, {2, 2048, 7, 13}};

TEST(BatchNormOnGpu, GivesWhatTheCpuGives) {
  RETINA_GPU_OR_SKIP();
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    for (const std::vector<std::int64_t>& shape : kBatchNormShapes) {
      for (const bool has_residual : {false, true}) {
        for (const bool relu : {false, true}) {
          NormInputs inputs = norm_inputs(type, shape);
          const at::Tensor residual =
              has_residual
                  ? random_tensor({.seed = 35, .shape = shape, .low = -1, .high = 1}).to(type)
                  : at::Tensor();
          // Small where the last bits decide what the ReLU lets pass: nothing jumps.
          inputs.dy = inputs.dy * batch_norm_results(inputs, residual, false)[0];
          const NormInputs exact = inputs.exact();
          const std::vector<at::Tensor> expected = batch_norm_results(
              exact, has_residual ? residual.to(exact.x.scalar_type()) : residual, relu);
          for (const char* const memory : {"contiguous", "channels-last", "misaligned"}) {
            SCOPED_TRACE(testing::Message()
                         << at::toString(type) << " " << at::IntArrayRef(shape) << ", residual "
                         << has_residual << ", ReLU " << relu << ", " << memory);
            NormInputs there = inputs.to(test_device());
            auto format = at::MemoryFormat::ChannelsLast;
            if (memory[1] == 'o') format = at::MemoryFormat::Contiguous;
            there.x = memory[0] == 'm' ? misaligned(there.x) : there.x.contiguous(format);
            const std::vector<at::Tensor> found = batch_norm_results(
                there, has_residual ? residual.to(test_device()) : residual, relu);
            ASSERT_EQ(found.size(), expected.size());
            EXPECT_TRUE(found[0].is_contiguous(format) && found[3].is_contiguous(format));
            for (std::size_t i = 0; i < found.size(); ++i) {
              const bool is_stored = i == 0 || i == 3 || i == 6;
              ASSERT_EQ(found[i].scalar_type(), is_stored ? type : inputs.weight.scalar_type());
              // 16 bits differ by a last one where the f32 before them does; the gradients of
              // weight and bias are sums of up to 30,000 f32 values.
              const bool is_sum = i == 4 || i == 5;
              const double relative = type == at::kDouble                                  ? 1e-10
                                      : c10::isReducedFloatingType(found[i].scalar_type()) ? 8e-3
                                                                                           : 1e-5;
              const double absolute = type == at::kDouble ? 1e-10 : is_sum ? 1e-3 : 2e-5;
              const at::Tensor a = found[i].cpu().to(at::kDouble), b = expected[i].to(at::kDouble);
              EXPECT_TRUE(a.allclose(b, relative, absolute))
                  << "result " << i << ": " << (a - b).abs().max().item<double>();
            }
          }
        }
      }
    }
  }
}

TEST(BatchNormOnGpu, LosesNothingToALargeMeanOrAFarValue) {
  RETINA_GPU_OR_SKIP();
  for (const bool is_far : {false, true}) {
    NormInputs inputs = norm_inputs(at::kFloat, {2, 256, 50, 50});
    inputs.x = (inputs.x + 1000).contiguous(at::MemoryFormat::ChannelsLast);
    if (is_far) inputs.x.slice(2, 0, 1).slice(3, 0, 1).fill_(-1e4);  // the first pixels
    const at::Tensor expected =
        at::batch_norm(inputs.x.to(at::kDouble), inputs.weight.to(at::kDouble),
                       inputs.bias.to(at::kDouble), {}, {}, /*training=*/true, 0.1, 1e-5, false);
    const at::Tensor found =
        batch_norm_results(inputs.to(test_device()), {}, false)[0].cpu().to(at::kDouble);
    EXPECT_TRUE(found.allclose(expected, 1e-5, 6e-5))
        << is_far << ": " << (found - expected).abs().max().item<double>();
  }
}

TEST(BatchNormOnGpu, HidesNoNanAndTakesEmptyBatches) {
  RETINA_TEST_DEVICE_OR_SKIP();
  const NormInputs inputs = norm_inputs(at::kBFloat16, {2, 256, 5, 5});
  inputs.x[1][8][2][3] = std::numeric_limits<double>::quiet_NaN();
  const at::Tensor y = batch_norm_results(inputs.to(test_device()), {}, true)[0];
  EXPECT_EQ(y.isnan().sum().item<std::int64_t>(), 2 * 25);
  EXPECT_TRUE(y.slice(1, 8, 9).isnan().all().item<bool>());
  const std::vector<at::Tensor> empty =
      batch_norm_results(norm_inputs(at::kBFloat16, {0, 256, 5, 5}).to(test_device()), {}, true);
  EXPECT_EQ(empty[3].numel(), 0);
  EXPECT_TRUE(empty[4].eq(0).all().item<bool>() && empty[5].eq(0).all().item<bool>());
}

TEST(BatchNormOnGpu, HasTheSameBitsEveryTime) {
  RETINA_TEST_DEVICE_OR_SKIP();
  NormInputs inputs = norm_inputs(at::kBFloat16, {3, 256, 50, 50}).to(test_device());
  inputs.x = inputs.x.contiguous(at::MemoryFormat::ChannelsLast);
  const std::vector<at::Tensor> first = batch_norm_results(inputs, inputs.dy, true);
  for (int run = 0; run < 5; ++run) {
    const std::vector<at::Tensor> again = batch_norm_results(inputs, inputs.dy, true);
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(again[i].equal(first[i])) << i;
  }
}

TEST(ImagesOnGpu, HaveTheBitsOfTheCpu) {
  RETINA_TEST_DEVICE_OR_SKIP();
  for (const bool warped : {false, true}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const TestBatch batch = test_batch(warped);
      const PreparedImages wanted = {.padded_width_px = 160, .padded_height_px = 128, .type = type};
      const at::Tensor expected = prepare_images(batch.block(), batch.table(), wanted);
      const at::Tensor images =
          prepare_images(batch.block().to(test_device()), batch.table().to(test_device()), wanted);
      EXPECT_TRUE(images.cpu().equal(expected)) << warped << at::toString(type);
    }
  }
}

}  // namespace
}  // namespace retina
