// Each CUDA kernel against its CPU twin on random tensors, from nothing to more anchors than a
// 1333 px image has. Matcher and NMS must agree in every element; sums and gradients of the losses
// differ by the last bits of exp and log and what these decide.
#include <ATen/core/Tensor.h>
#include <torch/types.h>

#include <ostream>

#include "shared/ops/box_loss.h"
#include "shared/ops/focal_loss.h"
#include "shared/ops/matcher.h"
#include "shared/ops/nms.h"
#include "shared/ops/prepare_pictures.h"
#include "tests/gpu/gpu.h"
#include "tests/ops/test_pictures.h"
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

  // Sums [N] and the gradient at `input` under uneven weights of the sums.
  struct Result {
    at::Tensor sums, gradient;
  };
  template <class Loss>
  static Result run(const at::Tensor& input, const Loss& loss) {
    const at::Tensor leaf = input.clone().requires_grad_();
    const at::Tensor sums = loss(leaf);
    (sums * torch::tensor({0.7, -1.3}, sums.options().requires_grad(false))).sum().backward();
    return {sums.detach().cpu(), leaf.grad().cpu()};
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
  for (const std::int64_t box_count : {0, 1, 7, 256, 300}) {
    const at::Tensor targets = boxes(2, box_count);
    for (const bool low_quality : {true, false}) {
      const MatchOptions options = {.low_quality_matches = low_quality};
      EXPECT_TRUE(match_anchors(anchors.cuda(), targets.cuda(), options, 5)
                      .cpu()
                      .equal(match_anchors(anchors, targets, options, 5)))
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
    EXPECT_TRUE(nms(all.cuda(), scores.cuda(), threshold).cpu().equal(nms(all, scores, threshold)));
    EXPECT_TRUE(batched_nms(all.cuda(), scores.cuda(), labels.cuda(), threshold)
                    .cpu()
                    .equal(batched_nms(all, scores, labels, threshold)));
  }
}

TEST_P(OpsOnGpu, FocalLossGivesTheSameSumsAndGradients) {
  const at::Tensor matches = some_matches(4), labels = torch::tensor({2L, 0L, 1L, 1L});
  const at::Tensor logits = values(7, {2, GetParam().count, 3}, 8);
  for (const FocalOptions options :
       {FocalOptions{.alpha = 0.25, .gamma = 2}, FocalOptions{.alpha = 0.6, .gamma = 1.5}}) {
    expect_close(
        run(logits.cuda(),
            [&](const at::Tensor& x) {
              return focal_loss(x, matches.cuda(), labels.cuda(), options);
            }),
        run(logits, [&](const at::Tensor& x) { return focal_loss(x, matches, labels, options); }));
  }
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
    expect_close_by_norm(
        run(deltas.cuda(),
            [&](const at::Tensor& x) {
              return box_loss(x, anchors.cuda(), targets.cuda(), matches.cuda(), options);
            }),
        run(deltas,
            [&](const at::Tensor& x) { return box_loss(x, anchors, targets, matches, options); }));
  }
}

TEST_P(OpsOnGpu, LossesHaveTheSameBitsEveryTime) {
  const at::Tensor matches = some_matches(4).cuda(),
                   labels = torch::tensor({2L, 0L, 1L, 1L}).cuda();
  const at::Tensor logits = values(7, {2, GetParam().count, 3}, 8).cuda();
  const at::Tensor first = focal_loss(logits, matches, labels, FocalOptions());
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(first.equal(focal_loss(logits, matches, labels, FocalOptions())));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, OpsOnGpu, testing::ValuesIn(all_cases()),
                         testing::PrintToStringParamName());

TEST(PicturesOnGpu, HaveTheBitsOfTheCpu) {
  RETINA_GPU_OR_SKIP();
  for (const bool warped : {false, true}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const TestPictures pictures = test_pictures(warped);
      const PreparedImages wanted = {.padded_width_px = 160, .padded_height_px = 128, .type = type};
      const at::Tensor expected = prepare_pictures(pictures.block(), pictures.table(), wanted);
      const at::Tensor images =
          prepare_pictures(pictures.block().cuda(), pictures.table().cuda(), wanted);
      EXPECT_TRUE(images.cpu().equal(expected)) << warped << at::toString(type);
    }
  }
}

}  // namespace
}  // namespace retina
