#include "shared/model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "shared/base/json.h"
#include "tests/support/refusal.h"

namespace retina {
namespace {

using testing::HasSubstr;

ModelConfig good_config() {
  ModelConfig config;
  config.class_count = 3;
  return config;
}

ModelConfig round_trip(const ModelConfig& config) {
  const JsonFile file = JsonFile::parse(config.to_json(), "model");
  return ModelConfig::from_json(file.root());
}

TEST(ModelConfig, SurvivesJsonToTheLastBit) {
  ModelConfig config = good_config();
  config.backbone = "resnet152";
  config.norm = Norm::kFrozen;
  config.norm_eps = 0;
  config.head_norm = HeadNorm::kNone;
  config.p6_from_c5 = false;
  config.anchor_sizes = {16, 22.6274, 1.0 / 3 + 40, 90, 300};
  config.anchor_offset = 0.5;
  config.anchors_per_location = 1;
  config.fpn_channels = 96;
  config.head_convs = 2;
  config.min_side_px = 192;
  config.max_side_px = 256;
  config.image_mean = {0.1, 0.2, 1.0 / 3};
  EXPECT_EQ(round_trip(config), config);
  EXPECT_EQ(round_trip(good_config()), good_config());
}

TEST(ModelConfig, NamesTheFieldThatIsWrong) {
  const std::vector<std::pair<std::string, std::function<void(ModelConfig&)>>> cases = {
      {"backbone", [](ModelConfig& c) { c.backbone = "resnet51"; }},
      {"class_count", [](ModelConfig& c) { c.class_count = 0; }},
      {"norm_eps", [](ModelConfig& c) { c.norm_eps = -1; }},
      {"anchor_sizes",
       [](ModelConfig& c) {
         c.anchor_sizes = {32, 64};
       }},
      {"anchor_sizes", [](ModelConfig& c) { c.anchor_sizes[2] = 1; }},
      {"anchor_offset", [](ModelConfig& c) { c.anchor_offset = 1; }},
      {"fpn_channels", [](ModelConfig& c) { c.fpn_channels = 32; }},
      {"fpn_channels", [](ModelConfig& c) { c.fpn_channels = 100; }},
      {"fpn_channels", [](ModelConfig& c) { c.fpn_channels = 288; }},
      {"anchors_per_location", [](ModelConfig& c) { c.anchors_per_location = 3; }},
      {"head_convs", [](ModelConfig& c) { c.head_convs = 0; }},
      {"head_convs", [](ModelConfig& c) { c.head_convs = 5; }},
      {"min_side_px", [](ModelConfig& c) { c.min_side_px = 0; }},
      {"max_side_px", [](ModelConfig& c) { c.max_side_px = 100; }},
      {"image_std", [](ModelConfig& c) { c.image_std[1] = 0; }}};
  for (const auto& [field, spoil] : cases) {
    ModelConfig config = good_config();
    spoil(config);
    EXPECT_THAT(refusal_of(ErrorKind::kUsage, [&] { config.validate(); }), HasSubstr(field));
  }
}

TEST(ModelConfig, AFilesUnknownWordIsNamedWithItsField) {
  for (const auto& [field, good, bad] :
       {std::array{"norm", "batch", "layer"}, std::array{"head_norm", "group", "batch"}}) {
    std::string text = good_config().to_json();
    const std::string before = cat("\"", field, "\":\"", good, "\"");
    ASSERT_NE(text.find(before), std::string::npos) << text;
    text.replace(text.find(before), before.size(), cat("\"", field, "\":\"", bad, "\""));
    const JsonFile file = JsonFile::parse(text, "model");
    EXPECT_THAT(refusal_of(ErrorKind::kData, [&] { ModelConfig::from_json(file.root()); }),
                HasSubstr(cat("model ", field, ": unknown value (got \"", bad)));
  }
}

TEST(ModelConfig, AFileWithAnImpossibleOrMissingValueIsBadData) {
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"resnet50\"", "\"resnet7\""},
           {"\"class_count\":3,", ""},
           {"\"anchor_offset\":0,", ""},
           {"\"class_count\":3", "\"class_count\":-3"},
           {"\"class_count\":3", "\"class_count\":99999999999"}}) {
    std::string text = good_config().to_json();
    text.replace(text.find(from), from.size(), to);
    const JsonFile file = JsonFile::parse(text, "run/checkpoint.pt");
    EXPECT_THAT(refusal_of(ErrorKind::kData, [&] { ModelConfig::from_json(file.root()); }),
                HasSubstr("run/checkpoint.pt"))
        << to;
  }
}

}  // namespace
}  // namespace retina
