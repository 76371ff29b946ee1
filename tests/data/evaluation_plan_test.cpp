#include "shared/data/evaluation_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace retina {
namespace {

using testing::ElementsAre;

ImageIndex images(std::size_t count, int width, int height) {
  ImageIndex index;
  for (std::size_t i = 0; i < count; ++i) {
    index.push_back({.image_id = static_cast<std::int64_t>(i), .width = width, .height = height});
  }
  return index;
}

std::vector<std::size_t> batch_sizes(const std::vector<BatchRequest>& plan) {
  std::vector<std::size_t> sizes;
  for (const BatchRequest& batch : plan) sizes.push_back(batch.slots.size());
  return sizes;
}

TEST(EvaluationPlan, BatchesOfStoredImagesHaveALimitOfBytesButOneImageAtLeast) {
  EvaluationPlanOptions options{.images_per_batch = 4};
  const ImageIndex index = images(7, 100, 10);  // 3,000 bytes each
  EXPECT_THAT(batch_sizes(plan_evaluation(index, options)), ElementsAre(4, 3));
  options.stored_bytes_per_batch = 9'000;
  EXPECT_THAT(batch_sizes(plan_evaluation(index, options)), ElementsAre(3, 3, 1));
  options.stored_bytes_per_batch = 8'999;
  EXPECT_THAT(batch_sizes(plan_evaluation(index, options)), ElementsAre(2, 2, 2, 1));
  options.stored_bytes_per_batch = 1;
  EXPECT_THAT(batch_sizes(plan_evaluation(index, options)), ElementsAre(1, 1, 1, 1, 1, 1, 1));
}

// So that the sum of all batches' losses is a mean.
TEST(EvaluationPlan, TellsEachBatchHowManyImagesAreVisited) {
  EvaluationPlanOptions options{.images_per_batch = 4};
  for (const std::int64_t most : {0, 5}) {
    options.max_images = most;
    const std::vector<BatchRequest> plan = plan_evaluation(images(7, 100, 10), options);
    ASSERT_EQ(plan.size(), 2U);
    for (const BatchRequest& batch : plan) {
      EXPECT_EQ(batch.part.real_image_count, most == 0 ? 7 : most);
    }
  }
}

// `tiles` of each of `count` images.
ImageIndex tiles(std::size_t count, std::size_t tiles) {
  ImageIndex index;
  for (std::size_t i = 0; i < count * tiles; ++i) {
    index.push_back(
        {.image_id = static_cast<std::int64_t>(count - i / tiles),
         .width = 100,
         .height = 100,
         .tile = TilePlace{
             .x = static_cast<int>(i % tiles) * 100, .image_width = 1000, .image_height = 100}});
  }
  return index;
}

TEST(EvaluationPlan, TheFirstImagesAreVisitedWithAllTheirTiles) {
  EXPECT_THAT(visited_places(tiles(3, 2), 2), ElementsAre(2, 3, 4, 5));  // ids 3, 3, 2, 2, 1, 1
  EXPECT_EQ(visited_places(tiles(3, 2), 3).size(), 6U);
  EXPECT_EQ(visited_text(tiles(3, 2), 2), "4 tiles of 2 images");
  EXPECT_EQ(visited_text(images(3, 10, 10), 1), "1 image");
}

TEST(EvaluationPlan, TilesShareBatchesWithThoseOfTheirImageWhereThatSavesWork) {
  EvaluationPlanOptions options{.images_per_batch = 4};
  EXPECT_THAT(batch_sizes(plan_evaluation(tiles(2, 6), options)), ElementsAre(4, 4, 4));
  options.keeps_images_apart = true;
  EXPECT_THAT(batch_sizes(plan_evaluation(tiles(2, 6), options)), ElementsAre(4, 2, 4, 2));
}

}  // namespace
}  // namespace retina
