#include "shared/model/postprocess.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "shared/base/error.h"
#include "tests/model/small_model.h"
#include "tests/ops/test_tensors.h"

namespace retina {
namespace {

constexpr PixelSize kPadded = {.height = 64, .width = 96};

// All logits at -9 (score 0.0001), all deltas 0: the anchors themselves.
struct AllOutputs {
  at::Tensor logits, deltas;  // [N, A, 2], [N, A, 4]
};
AllOutputs quiet_outputs(std::int64_t image_count) {
  const std::int64_t count = anchors_for(small_config(), kPadded).size(0);
  return {.logits = torch::full({image_count, count, 2}, -9.0F),
          .deltas = torch::zeros({image_count, count, 4})};
}

HeadOutputs by_level(const AllOutputs& all) {
  HeadOutputs outputs;
  std::int64_t begin = 0;
  for (const int count : anchors_per_level(kPadded)) {
    outputs.logits.push_back(all.logits.narrow(1, begin, count));
    outputs.deltas.push_back(all.deltas.narrow(1, begin, count));
    begin += count;
  }
  return outputs;
}

std::vector<ImageDetections> detect(const AllOutputs& all, const PostprocessOptions& options = {}) {
  const auto image_count = static_cast<std::size_t>(all.logits.size(0));
  return postprocess(by_level(all), small_config(), kPadded, std::vector(image_count, kPadded),
                     options);
}

TEST(Postprocess, NothingAboveTheThresholdIsNothing) {
  const auto found = detect(quiet_outputs(2));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[1].boxes.sizes(), (std::vector<std::int64_t>{0, 4}));
  EXPECT_EQ(found[1].scores.numel() + found[1].labels.numel(), 0);
}

TEST(Postprocess, OneLoudAnchorIsOneClippedBoxOfItsImageAndClass) {
  AllOutputs outputs = quiet_outputs(2);
  outputs.logits[1][3][1] = 2.0F;  // the 32 px square around the corner
  const auto found = detect(outputs);
  EXPECT_EQ(found[0].scores.numel(), 0);
  ASSERT_EQ(found[1].scores.numel(), 1);
  EXPECT_TRUE(found[1].boxes.equal(torch::tensor({0.F, 0.F, 16.F, 16.F}).view({1, 4})));
  EXPECT_FLOAT_EQ(found[1].scores.item<float>(), 1 / (1 + std::exp(-2.0F)));
  EXPECT_EQ(found[1].labels.item<std::int64_t>(), 1);
}

TEST(Postprocess, TwinsOfOneClassAreSuppressedThoseOfAnotherStay) {
  AllOutputs outputs = quiet_outputs(1);
  outputs.logits[0][498][0] = 2.0F;
  outputs.logits[0][498][1] = 1.0F;
  outputs.logits[0][499][0] = 1.5F;
  outputs.deltas[0][499].slice(0, 2, 4).fill_(-0.22);  // the next size, shrunk onto its neighbour
  const auto found = detect(outputs);
  EXPECT_TRUE(found[0].labels.equal(torch::tensor({0L, 1L})));
}

TEST(Postprocess, KeepsTheBestUpToTheLimits) {
  AllOutputs outputs = quiet_outputs(1);
  const at::Tensor noise =
      random_tensor({.seed = 1, .shape = outputs.logits.sizes().vec(), .low = -2, .high = 2});
  outputs.logits.copy_(noise);
  const auto few = detect(outputs, {.max_detections = 7});
  const auto many = detect(outputs, {.max_detections = 20});
  ASSERT_EQ(few[0].scores.size(0), 7);
  EXPECT_TRUE(few[0].scores.equal(many[0].scores.slice(0, 0, 7)));
  const auto one_per_level = detect(outputs, {.candidates_per_level = 1});
  EXPECT_LE(one_per_level[0].scores.size(0), 5);
  EXPECT_FLOAT_EQ(one_per_level[0].scores[0].item<float>(), few[0].scores[0].item<float>());
}

// What a GPU does, here on the CPU: images with many boxes, some and none.
TEST(Postprocess, OfAllImagesTogetherFindsTheSame) {
  AllOutputs outputs = quiet_outputs(3);
  const std::int64_t count = outputs.logits.size(1);
  // No two scores alike.
  const at::Tensor places =
      random_tensor({.seed = 2, .shape = {2 * count}}).argsort().argsort().to(at::kFloat);
  outputs.logits[0].copy_((places * (8.0F / static_cast<float>(2 * count)) - 4).view({count, 2}));
  outputs.logits[2].slice(0, 0, 30).copy_(outputs.logits[0].slice(0, 0, 30));
  outputs.deltas.copy_(
      random_tensor({.seed = 3, .shape = outputs.deltas.sizes().vec(), .low = -1, .high = 1}));
  const std::vector<PixelSize> sizes = {
      kPadded, {.height = 50, .width = 70}, {.height = 40, .width = 90}};
  for (const PostprocessOptions& options :
       {PostprocessOptions{}, PostprocessOptions{.max_detections = 5},
        PostprocessOptions{.score_threshold = 0.9, .candidates_per_level = 40},
        PostprocessOptions{.nms_threshold = 0.1}}) {
    const auto one_by_one = postprocess(by_level(outputs), small_config(), kPadded, sizes, options);
    const auto together =
        postprocess_together(by_level(outputs), small_config(), kPadded, sizes, options);
    ASSERT_EQ(together.size(), 3U);
    EXPECT_GT(one_by_one[0].scores.size(0), 4);
    for (std::size_t i = 0; i < together.size(); ++i) {
      EXPECT_TRUE(together[i].scores.equal(one_by_one[i].scores)) << i;
      EXPECT_TRUE(together[i].labels.equal(one_by_one[i].labels)) << i;
      EXPECT_TRUE(together[i].boxes.equal(one_by_one[i].boxes)) << i;
    }
    EXPECT_EQ(together[1].scores.numel(), 0);
  }
}

TEST(Postprocess, OptionsOutOfRangeAreTheUsersMistake) {
  EXPECT_THROW(PostprocessOptions{.score_threshold = -0.1}.validate(), Error);
  EXPECT_THROW(PostprocessOptions{.nms_threshold = 1.5}.validate(), Error);
  EXPECT_THROW(PostprocessOptions{.max_detections = 0}.validate(), Error);
  EXPECT_NO_THROW(PostprocessOptions().validate());
}

}  // namespace
}  // namespace retina
