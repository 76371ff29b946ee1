// Each CUDA kernel against its CPU twin on random tensors, from nothing to more anchors than a
// 1333 px image has. Matcher and NMS must agree in every element; sums and gradients of the losses
// differ by the last bits of exp and log and what these decide.
#include <ATen/core/Tensor.h>
#include <torch/types.h>

#include <ostream>

#include "shared/ops/bias_relu.h"
#include "shared/ops/dropout.h"
#include "shared/ops/head_losses.h"
#include "shared/ops/matcher.h"
#include "shared/ops/nms.h"
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
  void SetUp() override { RETINA_GPU_OR_SKIP(); }

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
      EXPECT_TRUE(match_anchors(anchors.cuda(), targets.cuda(), offsets.cuda(), options)
                      .cpu()
                      .equal(match_anchors(anchors, targets, offsets, options)))
          << box_count << " boxes, low quality " << low_quality;
    }
  }
}

TEST_P(OpsOnGpu, NmsKeepsTheSameBoxesInTheSameOrder) {
  const std::int64_t count = std::min<std::int64_t>(GetParam().count, 20000);
  const at::Tensor all = boxes(4, count);
  const at::Tensor scores = (values(5, {count}, 1) * 512).floor() / 512;  // ties
  const at::Tensor labels = integers(6, {count}, 0, 3);
  for (const double threshold : {0.31, 0.5}) {
    for (const at::Tensor& classes : {labels, torch::zeros_like(labels)}) {
      EXPECT_TRUE(batched_nms(all.cuda(), scores.cuda(), classes.cuda(), threshold)
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
    const at::Tensor there = logits.cuda();
    expect_close(
        on_cpu(focal_loss(levels(there), matches.cuda(), labels.cuda(), weights(there), options)),
        on_cpu(focal_loss(levels(logits), matches, labels, weights(logits), options)));
  }
}

TEST_P(OpsOnGpu, FocalLossReadsAndWritesBf16) {
  const at::Tensor matches = some_matches(4), labels = torch::tensor({2L, 0L, 1L, 1L});
  const at::Tensor logits = values(7, {2, GetParam().count, 3}, 8).to(at::kBFloat16);
  const at::Tensor there = logits.cuda();
  const Result gpu = on_cpu(focal_loss(levels(there), matches.cuda(), labels.cuda(), weights(there),
                                       FocalOptions())),
               cpu = on_cpu(
                   focal_loss(levels(logits), matches, labels, weights(logits), FocalOptions()));
  EXPECT_TRUE(gpu.sums.allclose(cpu.sums, 2e-6, 1e-6));
  EXPECT_TRUE(gpu.gradient.allclose(cpu.gradient, 1e-2, 1e-6));
}

TEST_P(OpsOnGpu, BoxLossesGiveTheSameSumsAndGradients) {
  constexpr std::int64_t kBoxes = 9;
  const at::Tensor matches = some_matches(kBoxes), targets = boxes(8, kBoxes),
                   anchors = boxes(9, GetParam().count),
                   deltas = values(10, {2, GetParam().count, 4}, 1.5);
  for (const BoxLossOptions options :
       {BoxLossOptions{}, BoxLossOptions{.kind = BoxLossKind::kSmoothL1, .target_std = 0.2},
        BoxLossOptions{.kind = BoxLossKind::kGiou}}) {
    SCOPED_TRACE(static_cast<int>(options.kind));
    const at::Tensor there = deltas.cuda();
    expect_close_by_norm(
        on_cpu(box_loss(levels(there), anchors.cuda(), targets.cuda(), matches.cuda(),
                        weights(there), options)),
        on_cpu(box_loss(levels(deltas), anchors, targets, matches, weights(deltas), options)));
  }
}

TEST_P(OpsOnGpu, LossesHaveTheSameBitsEveryTime) {
  const at::Tensor matches = some_matches(4).cuda(),
                   labels = torch::tensor({2L, 0L, 1L, 1L}).cuda();
  const at::Tensor logits = values(7, {2, GetParam().count, 3}, 8).cuda();
  const auto sums = [&] {
    return focal_loss({logits}, matches, labels, weights(logits), FocalOptions()).sums;
  };
  const at::Tensor first = sums();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(first.equal(sums()));
}

INSTANTIATE_TEST_SUITE_P(Sizes, OpsOnGpu, testing::ValuesIn(all_cases()),
                         testing::PrintToStringParamName());

TEST(DropoutOnGpu, HasTheBitsOfTheCpu) {
  RETINA_GPU_OR_SKIP();
  const DropoutDraw draw = {.seed = 7, .step = std::int64_t{1} << 31, .layer = 2};
  const at::Tensor slots = torch::tensor({3L, 0L, 65535L});
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      const at::Tensor x =
          random_tensor({.seed = 11, .shape = {3, 37, 29, 31}, .low = -2, .high = 2})
              .to(type)
              .contiguous(format);
      const at::Tensor here = x.detach().requires_grad_(), there = x.cuda().requires_grad_();
      const at::Tensor expected = dropout(here, 0.3, slots, draw),
                       found = dropout(there, 0.3, slots.cuda(), draw);
      EXPECT_TRUE(found.is_contiguous(format));
      EXPECT_TRUE(found.cpu().equal(expected)) << at::toString(type);
      expected.sum().backward();
      found.sum().backward();
      EXPECT_TRUE(there.grad().cpu().equal(here.grad())) << at::toString(type);
    }
  }
}

TEST(BiasReluOnGpu, HasTheBitsOfTheCpu) {
  RETINA_GPU_OR_SKIP();
  // 36, 15: no whole vectors of 16 bytes a pixel.
  for (const std::int64_t channels : {256, 720, 36, 15, 8}) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
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
                               shift = bias.to(device).requires_grad_(),
                               other = draw(2).to(device).requires_grad_();
              const at::Tensor y = bias_relu(
                  x.clone(),
                  {.bias = shift, .residual = residual ? other : at::Tensor(), .relu = relu});
              y.backward(draw(4).to(device));
              return std::vector<at::Tensor>{y.detach().cpu(), x.grad().cpu(), shift.grad().cpu()};
            };
            const auto gpu = results_on({c10::kCUDA, 0}), cpu = results_on(c10::kCPU);
            EXPECT_TRUE(gpu[0].equal(cpu[0])) << channels << at::toString(type) << residual << relu;
            EXPECT_TRUE(gpu[1].equal(cpu[1])) << channels << at::toString(type) << residual << relu;
            EXPECT_TRUE(gpu[2].allclose(cpu[2], 1e-5, 1e-4)) << channels << at::toString(type);
          }
        }
      }
    }
  }
}

TEST(ImagesOnGpu, HaveTheBitsOfTheCpu) {
  RETINA_GPU_OR_SKIP();
  for (const bool warped : {false, true}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const TestBatch batch = test_batch(warped);
      const PreparedImages wanted = {.padded_width_px = 160, .padded_height_px = 128, .type = type};
      const at::Tensor expected = prepare_images(batch.block(), batch.table(), wanted);
      const at::Tensor images = prepare_images(batch.block().cuda(), batch.table().cuda(), wanted);
      EXPECT_TRUE(images.cpu().equal(expected)) << warped << at::toString(type);
    }
  }
}

}  // namespace
}  // namespace retina
