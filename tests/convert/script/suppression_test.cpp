#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include "convert/script/script_part.h"
#include "shared/ops/nms.h"

namespace retina {
namespace {

torch::jit::Module suppression() {
  torch::jit::Module module("suppression");
  module.define(suppression_script().source);
  return module;
}

struct Case {
  std::int64_t count;
  std::int64_t class_count;
  double side_px;  // of the square that boxes lie in: small is crowded
};

// Names the test's entries.
void PrintTo(const Case& item, std::ostream* out) {
  *out << item.count << " boxes, " << item.class_count << " classes, " << item.side_px << " px";
}

class Suppression : public testing::TestWithParam<Case> {};

TEST_P(Suppression, EqualsBatchedNms) {
  auto module = suppression();
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    at::manual_seed(seed);
    const auto [count, class_count, side_px] = GetParam();
    const at::Tensor corner = at::rand({count, 2}) * side_px;
    const at::Tensor boxes = at::cat({corner, corner + at::rand({count, 2}) * 60 + 1}, 1);
    // Few distinct scores: ties everywhere.
    const at::Tensor scores = at::round(at::rand({count}) * 50) / 50;
    const at::Tensor labels = at::randint(class_count, {count}, at::kLong);
    const at::Tensor want = batched_nms(boxes, scores, labels, 0.5);
    for (const std::int64_t max_detections : {std::int64_t{10}, count + 1}) {
      const at::Tensor got =
          module.forward({boxes, scores, labels, 0.5, max_detections}).toTensor();
      EXPECT_TRUE(at::equal(got, want.narrow(0, 0, std::min(want.size(0), max_detections))));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Suppression,
                         testing::Values(Case{0, 1, 100}, Case{1, 1, 100}, Case{255, 2, 80},
                                         Case{257, 1, 50}, Case{1000, 3, 200}, Case{1001, 3, 200},
                                         Case{3000, 1, 150}, Case{3000, 80, 800}));

// Box i overlaps only i - 1 and i + 1: the longest chain of "kept unless a kept one overlaps".
TEST(SuppressionChain, KeepsEverySecondBox) {
  auto module = suppression();
  const at::Tensor x = at::arange(600, at::kFloat) * 30;
  const at::Tensor zero = at::zeros({600});
  const at::Tensor boxes = at::stack({x, zero, x + 100, zero + 100}, 1);
  const at::Tensor scores = at::linspace(0.9, 0.1, 600);
  const at::Tensor got =
      module.forward({boxes, scores, at::zeros({600}, at::kLong), 0.5, 1000}).toTensor();
  EXPECT_TRUE(at::equal(got, at::arange(0, 600, 2, at::kLong)));
}

}  // namespace
}  // namespace retina
