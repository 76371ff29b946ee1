#include "train/augment/augment_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/cli/cli.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;

AugmentOptions parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "retina-train");
  AugmentChoice choice;
  Cli cli("retina-train", "", "");
  declare_options(cli, choice);
  EXPECT_EQ(cli.parse(static_cast<int>(arguments.size()), arguments.data()), CliOutcome::kRun);
  return choice.options();
}

void expect_refused(const std::vector<const char*>& arguments, const std::string& message) {
  EXPECT_THAT(refusal_of(ErrorKind::kUsage, [&] { parse(arguments); }), HasSubstr(message))
      << arguments.back();
}

TEST(AugmentChoice, DetailsReplaceThoseOfTheSet) {
  const AugmentOptions options = parse(
      {"--augment",
       "light,flip=0.1,vertical-flip=0.2,rotation=0.3,shear=0.4,translation=0.5,scale=0.6:0.7,"
       "contrast=0.8:1,saturation=1:1.2,brightness=0.25,hue=0.5,fill=constant,"
       "box-visibility=0.75"});
  EXPECT_EQ(options.flip, 0.1);
  EXPECT_EQ(options.vertical_flip, 0.2);
  EXPECT_EQ(options.rotation_rad, 0.3);
  EXPECT_EQ(options.shear_rad, 0.4);
  EXPECT_EQ(options.translation, 0.5);
  EXPECT_EQ(options.scale.low, 0.6);
  EXPECT_EQ(options.scale.high, 0.7);
  EXPECT_EQ(options.contrast.low, 0.8);
  EXPECT_EQ(options.saturation.high, 1.2);
  EXPECT_EQ(options.brightness, 0.25);
  EXPECT_EQ(options.hue, 0.5);
  EXPECT_EQ(options.fill, Fill::kConstant);
  EXPECT_EQ(options.box_visibility, 0.75);
  EXPECT_EQ(parse({"--augment", "none,scale-jitter=0.5:1"}).scale_jitter.low, 0.5);
  EXPECT_EQ(parse({"--augment", "crop=0.3:1"}).crop.low, 0.3);
}

TEST(AugmentChoice, WhatIsNotGivenIsTheSets) {
  const AugmentOptions light = parse({"--augment", "light,shear=0"});
  EXPECT_EQ(light.shear_rad, 0);
  EXPECT_EQ(light.rotation_rad, 0.1);
  EXPECT_EQ(light.scale.high, 1.1);
  EXPECT_EQ(light.flip, 0.5);
  EXPECT_EQ(parse({"--augment", "none"}).flip, 0);
  EXPECT_EQ(parse({"--augment", "strong"}).fill, Fill::kConstant);
}

TEST(AugmentChoice, ReadsDetailsFromAConfigFile) {
  const TestFolder folder;
  const std::string path = folder / "config.json";
  write_file_atomically(path, R"({"augment": ["light", "rotation=0.5", "fill=constant"]})");
  const AugmentOptions options = parse({"--config", path.c_str()});
  EXPECT_EQ(options.rotation_rad, 0.5);
  EXPECT_EQ(options.shear_rad, 0.1);
  EXPECT_EQ(options.fill, Fill::kConstant);
}

TEST(AugmentChoice, RefusesWhatMakesNoSense) {
  expect_refused({"--augment", "wild"}, "none|flip|crop|light|strong");
  for (const auto& [value, want] :
       {std::pair{"fill=black", "fill=nearest|constant"}, std::pair{"flip=1.5", "flip=0 to 1"},
        std::pair{"rotation=-0.1", "rotation=0 to 3.15"}, std::pair{"hue=0.6", "hue=0 to 0.5"},
        std::pair{"hue=", "hue=0 to 0.5"}, std::pair{"flip=0.1:0.2", "flip=0 to 1"},
        std::pair{"crop=0:1", "crop=LOW:HIGH from 0.01 to 1"}, std::pair{"crop=0.5", "LOW:HIGH"},
        std::pair{"scale=0.5:0.8:1", "LOW:HIGH"}, std::pair{"contrast=1.1:0.9", "got contrast=1.1"},
        std::pair{"mosaic=1", "want a set, flip=, "},
        std::pair{"flip=1,light", "behind the set"}}) {
    expect_refused({"--augment", value}, want);
  }
}

TEST(AugmentChoice, TakesOneOfTheThreeScales) {
  expect_refused({"--augment", "light,crop=0.3:1"}, "scale and crop");
  expect_refused({"--augment", "light,scale-jitter=0.5:2"}, "scale and scale-jitter");
  expect_refused({"--augment", "strong,crop=0.3:1"}, "scale-jitter and crop");
  EXPECT_EQ(parse({"--augment", "strong,scale-jitter=1:1,crop=0.3:1"}).crop.low, 0.3);
}

}  // namespace
}  // namespace retina
