#include "shared/base/nearest.h"

#include <gtest/gtest.h>

namespace retina {
namespace {

const std::vector<std::string> kNames = {"epochs", "steps", "images-per-step"};

TEST(NearestMatch, FindsTheNameWithTheFewestEdits) {
  EXPECT_EQ(nearest_match("epoch", kNames), "epochs");
  EXPECT_EQ(nearest_match("setps", kNames), "steps");
  EXPECT_EQ(nearest_match("images_per_step", kNames), "images-per-step");
  EXPECT_EQ(nearest_match("steps", kNames), "steps");
}

TEST(NearestMatch, IsEmptyWhenNothingIsNear) {
  EXPECT_EQ(nearest_match("quality", kNames), "");
  EXPECT_EQ(nearest_match("x", {}), "");
}

}  // namespace
}  // namespace retina
