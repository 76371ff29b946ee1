#include "shared/base/foreign_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

namespace retina {
namespace {

TEST(ForeignOptions, AreAnsweredWithOurs) {
  EXPECT_EQ(foreign_option_answer("retina-train", "batch-size"),
            "here it is --images-per-step (all ranks together)");
  EXPECT_EQ(foreign_option_answer("retina-eval", "batch_size"), "here it is --images-per-batch");
  EXPECT_EQ(foreign_option_answer("retina-train", "lr0"), "here it is --lr");
  EXPECT_THAT(foreign_option_answer("retina-train", "hsv_v"),
              testing::HasSubstr("here it is --augment SET,NAME=VALUE with "));
  EXPECT_EQ(foreign_option_answer("retina-train", "mosaic"),
            "images are not mixed; --augment chooses a set of changes of each one");
  EXPECT_EQ(foreign_option_answer("retina-convert", "weights"),
            "here it is --checkpoint for a checkpoint of ours, --import for a .pth file");
  EXPECT_EQ(foreign_option_answer("retina-convert", "format"),
            "an inference model is an ONNX file, which --output names: NAME.onnx");
  EXPECT_EQ(foreign_option_answer("retina-train", "no-such-option"), "");
}

TEST(ForeignOptions, OfAnotherProgramNameIt) {
  EXPECT_EQ(foreign_option_answer("retina-eval", "epochs"), "it is for retina-train: --epochs");
  EXPECT_EQ(foreign_option_answer("coco-pack", "lr"), "");
  EXPECT_EQ(foreign_option_answer("coco-pack", "conf"), "it is for retina-eval: --score-threshold");
}

TEST(ForeignOptions, OfTilesHaveTheFieldsNames) {
  for (const char* program : {"coco-pack", "retina-eval"}) {
    for (const char* name : {"tile-size", "patch-size", "patch_size", "slice-size"}) {
      EXPECT_EQ(foreign_option_answer(program, name), "here it is --tile");
    }
    EXPECT_EQ(foreign_option_answer(program, "overlap"), "here it is --tile SIDE,overlap=SHARE");
  }
  EXPECT_EQ(foreign_option_answer("retina-eval", "format"), "here it is --output-format");
}

TEST(ForeignOptions, HaveValuesToo) {
  EXPECT_EQ(foreign_value_answer("coco-pack", "format", "deepforest"), "here it is --format csv");
  EXPECT_EQ(foreign_value_answer("coco-pack", "format", "GeoJSON"), "here it is --format xview");
  EXPECT_EQ(foreign_value_answer("coco-pack", "format", "onnx"), "");
  EXPECT_NE(foreign_value_answer("retina-train", "device", "0,1"), "");
  EXPECT_EQ(foreign_value_answer("retina-train", "lr", "x"), "");
}

TEST(ForeignOptions, HaveEachNameOnceAndSpelledOneWay) {
  std::set<std::string> names;
  for (const ForeignOption& row : foreign_options()) {
    std::istringstream words(row.names);
    for (std::string name; words >> name;) {
      EXPECT_TRUE(names.insert(name).second) << name;
      EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-="), std::string::npos)
          << name;
    }
  }
}

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
