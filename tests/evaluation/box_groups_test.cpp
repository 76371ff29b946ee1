#include "shared/evaluation/score/box_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/evaluation/scene.h"

namespace retina {
namespace {

using testing::ElementsAre;

TEST(BoxGroups, DetectionsAreByImageIdAndBestFirstEqualScoresAsInTheFile) {
  Scene scene;
  std::swap(scene.truth.images[0], scene.truth.images[1]);
  scene.detect(2, 7, {0, 0, 1, 1}, .5);
  scene.detect(1, 7, {0, 0, 2, 2}, .25);
  scene.detect(1, 99, {0, 0, 3, 3}, 1);  // no such class: left out
  scene.detect(1, 3, {0, 0, 4, 4}, .75);
  scene.detect(1, 7, {0, 0, 5, 0}, .25);
  scene.detect(2, 3, {0, 0, 6, 6}, -.5);
  const BoxGroups boxes(scene.truth, scene.found);
  EXPECT_EQ(boxes.image(0).id, 1);
  EXPECT_THAT(boxes.found_begin, ElementsAre(0, 3, 5));
  EXPECT_THAT(boxes.entry, ElementsAre(3, 1, 4, 0, 5));
  EXPECT_THAT(boxes.label, ElementsAre(0, 1, 1, 1, 0));
  EXPECT_THAT(boxes.score, ElementsAre(.75, .25, .25, .5, -.5));
  EXPECT_THAT(boxes.of_class(0), ElementsAre(0, 4));
  EXPECT_THAT(boxes.of_class(1), ElementsAre(3, 1, 2));
  EXPECT_EQ(boxes.image_of(2), 0U);
  EXPECT_EQ(boxes.image_of(3), 1U);
  // The file has image 2 first, with two detections.
  EXPECT_TRUE(boxes.images_are_shuffled());
  EXPECT_EQ(boxes.slot_in_file_order(0, 0), 2U);
  EXPECT_EQ(boxes.slot_in_file_order(1, 3), 0U);
}

TEST(BoxGroups, ObjectsAreByImageIdThenAsInTheFile) {
  Scene scene;
  scene.object(2, 3, {0, 0, 1, 1});
  scene.object(1, 7, {0, 0, 2, 2});
  scene.object(1, 3, {0, 0, 3, 3});
  const BoxGroups boxes(scene.truth, scene.found);
  EXPECT_THAT(boxes.truth_begin, ElementsAre(0, 2, 3));
  EXPECT_THAT(boxes.annotation, ElementsAre(1, 2, 0));
  EXPECT_THAT(boxes.truth_label, ElementsAre(1, 0, 0));
  EXPECT_FALSE(boxes.images_are_shuffled());
}

}  // namespace
}  // namespace retina
