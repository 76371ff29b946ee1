#include "shared/model/config.h"

#include <gtest/gtest.h>

#include <functional>

#include "shared/base/error.h"

namespace retina {
namespace {

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
  config.norm = "frozen";
  config.norm_eps = 0;
  config.head_norm = "none";
  config.p6_from_c5 = false;
  config.anchor_sizes = {16, 22.6274, 1.0 / 3 + 40, 90, 300};
  config.anchor_offset = 0.5;
  config.min_side_px = 192;
  config.max_side_px = 256;
  config.image_mean = {0.1, 0.2, 1.0 / 3};
  EXPECT_EQ(round_trip(config), config);
  EXPECT_EQ(round_trip(good_config()), good_config());
}

TEST(ModelConfig, NamesTheFieldThatIsWrong) {
  const std::vector<std::pair<std::string, std::function<void(ModelConfig&)>>> cases = {
      {"backbone", [](ModelConfig& c) { c.backbone = "resnet51"; }},
      {"norm", [](ModelConfig& c) { c.norm = "layer"; }},
      {"head_norm", [](ModelConfig& c) { c.head_norm = "batch"; }},
      {"class_count", [](ModelConfig& c) { c.class_count = 0; }},
      {"norm_eps", [](ModelConfig& c) { c.norm_eps = -1; }},
      {"anchor_sizes",
       [](ModelConfig& c) {
         c.anchor_sizes = {32, 64};
       }},
      {"anchor_sizes", [](ModelConfig& c) { c.anchor_sizes[2] = 1; }},
      {"anchor_offset", [](ModelConfig& c) { c.anchor_offset = 1; }},
      {"min_side_px", [](ModelConfig& c) { c.min_side_px = 0; }},
      {"max_side_px", [](ModelConfig& c) { c.max_side_px = 100; }},
      {"image_std", [](ModelConfig& c) { c.image_std[1] = 0; }}};
  for (const auto& [field, spoil] : cases) {
    ModelConfig config = good_config();
    spoil(config);
    try {
      config.validate();
      ADD_FAILURE() << field << " passed";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_NE(std::string(error.what()).find(field), std::string::npos) << error.what();
    }
  }
}

TEST(ModelConfig, AFileWithoutAnchorOffsetHasAnchorsAtCellCorners) {
  std::string text = good_config().to_json();
  const std::string field = "\"anchor_offset\":0,";
  ASSERT_NE(text.find(field), std::string::npos) << text;
  text.erase(text.find(field), field.size());
  const JsonFile file = JsonFile::parse(text, "model");
  EXPECT_EQ(ModelConfig::from_json(file.root()), good_config());
}

TEST(ModelConfig, AFileWithAnImpossibleOrMissingValueIsBadData) {
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"resnet50\"", "\"resnet7\""},
           {"\"class_count\":3,", ""},
           {"\"class_count\":3", "\"class_count\":-3"},
           {"\"class_count\":3", "\"class_count\":99999999999"}}) {
    std::string text = good_config().to_json();
    text.replace(text.find(from), from.size(), to);
    const JsonFile file = JsonFile::parse(text, "run/checkpoint.pt");
    try {
      ModelConfig::from_json(file.root());
      ADD_FAILURE() << to;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData);
      EXPECT_NE(std::string(error.what()).find("run/checkpoint.pt"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace retina
