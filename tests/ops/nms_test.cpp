#include "shared/ops/nms.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <numeric>

#include "tests/ops/test_tensors.h"

namespace retina {
namespace {

double iou(const at::Tensor& boxes, std::int64_t i, std::int64_t j) {
  const auto box = boxes.accessor<double, 2>();
  const double width = std::min(box[i][2], box[j][2]) - std::max(box[i][0], box[j][0]);
  const double height = std::min(box[i][3], box[j][3]) - std::max(box[i][1], box[j][1]);
  const double inter = std::max(0.0, width) * std::max(0.0, height);
  const auto area = [&](std::int64_t k) {
    return (box[k][2] - box[k][0]) * (box[k][3] - box[k][1]);
  };
  return inter / (area(i) + area(j) - inter);
}

// A box stays when no better one of its class that stays overlaps it too much.
std::vector<std::int64_t> by_definition(const at::Tensor& boxes, const at::Tensor& scores,
                                        const at::Tensor& labels, double threshold) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(boxes.size(0)));
  std::iota(order.begin(), order.end(), 0);
  const auto score = scores.accessor<double, 1>();
  const auto label = labels.accessor<std::int64_t, 1>();
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return score[a] > score[b]; });
  std::vector<std::int64_t> kept;
  for (const std::int64_t i : order) {
    if (std::none_of(kept.begin(), kept.end(), [&](std::int64_t k) {
          return label[k] == label[i] && iou(boxes, k, i) > threshold;
        })) {
      kept.push_back(i);
    }
  }
  return kept;
}

std::vector<std::int64_t> places(const at::Tensor& indices) {
  const auto* data = indices.const_data_ptr<std::int64_t>();
  return {data, data + indices.numel()};
}

TEST(Nms, EqualsTheDefinitionOnRandomBoxesWithTiedScores) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const std::int64_t count = seed < 25 ? 100 : 1200;  // both ways of batched_nms
    const at::Tensor boxes = random_boxes({.seed = seed, .count = count});
    const at::Tensor scores =
        (random_tensor({.seed = seed + 50, .shape = {count}}) * 32).floor() / 32;
    const at::Tensor labels =
        (random_tensor({.seed = seed + 90, .shape = {count}}) * 3).to(at::kLong);
    EXPECT_EQ(places(batched_nms(boxes, scores, labels, 0.3)),
              by_definition(boxes, scores, labels, 0.3))
        << "seed " << seed;
    const at::Tensor one_class = torch::zeros_like(labels);
    EXPECT_EQ(places(batched_nms(boxes, scores, one_class, 0.3)),
              by_definition(boxes, scores, one_class, 0.3))
        << "seed " << seed;
  }
}

TEST(Nms, AnOverlapAtTheThresholdStays) {
  const at::Tensor boxes = torch::tensor({0., 0., 10., 10., 0., 0., 10., 5.}).view({2, 4});
  const at::Tensor scores = torch::tensor({0.9, 0.8}), labels = torch::zeros({2}, at::kLong);
  EXPECT_EQ(places(batched_nms(boxes, scores, labels, 0.5)), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(places(batched_nms(boxes, scores, labels, 0.49)), (std::vector<std::int64_t>{0}));
}

TEST(Nms, EqualScoresKeepTheirOrder) {
  const at::Tensor boxes = torch::tensor({0., 0., 10., 10., 0., 0., 10., 10.}).view({2, 4});
  EXPECT_EQ(places(batched_nms(boxes, torch::ones({2}), torch::zeros({2}, at::kLong), 0.5)),
            (std::vector<std::int64_t>{0}));
}

TEST(Nms, NoBoxesGiveNoIndices) {
  const at::Tensor none = torch::zeros({0, 4});
  EXPECT_EQ(batched_nms(none, torch::zeros({0}), torch::zeros({0}, at::kLong), 0.5).numel(), 0);
}

}  // namespace
}  // namespace retina
