#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "shared/data/sample_source.h"

namespace retina {
namespace {

struct Loaded {
  Sample sample;
  std::vector<float> pixels;
};

Loaded load(const SampleSource& source, std::size_t record) {
  const IndexEntry entry = source.index()[record];
  const ResizedSize size = resized_size(entry.width, entry.height, 100, 200);
  BatchRequest request{.slots = {{.record = record}},
                       .frame = {.min_side_px = 100, .max_side_px = 200},
                       .padded = {padded_side_px(size.width), padded_side_px(size.height)}};
  JpegDecoder decoder;
  Loaded loaded;
  loaded.pixels.resize(static_cast<std::size_t>(3 * request.padded.width) *
                       static_cast<std::size_t>(request.padded.height));
  loaded.sample = source.load(request, 0, decoder, loaded.pixels.data());
  return loaded;
}

TEST(SyntheticSource, GivesAnImageAgainFromItsSeedAndPlace) {
  const SyntheticSource source(40, 80, 3), again(40, 80, 3), other(40, 80, 4);
  for (std::size_t record = 0; record < 40; ++record) {
    const Loaded loaded = load(source, record);
    EXPECT_EQ(loaded.pixels, load(again, record).pixels);
    EXPECT_EQ(loaded.sample.boxes, load(again, record).sample.boxes);
    EXPECT_NE(loaded.pixels, load(other, record).pixels);
  }
  EXPECT_NE(load(source, 0).sample.boxes, load(source, 1).sample.boxes);
}

TEST(SyntheticSource, KeepsBoxesInsideTheImageAndLabelsInsideTheClasses) {
  const SyntheticSource source(200, 7, 1);
  for (std::size_t record = 0; record < 200; ++record) {
    const Loaded loaded = load(source, record);
    ASSERT_FALSE(loaded.sample.boxes.empty());
    ASSERT_EQ(loaded.sample.boxes.size(), loaded.sample.labels.size());
    for (std::size_t i = 0; i < loaded.sample.boxes.size(); ++i) {
      const auto& box = loaded.sample.boxes[i];
      EXPECT_GE(box[0], 0);
      EXPECT_GE(box[1], 0);
      EXPECT_LT(box[0], box[2]);
      EXPECT_LT(box[1], box[3]);
      EXPECT_LE(box[2], static_cast<float>(loaded.sample.width_px) + 1e-3F);
      EXPECT_LE(box[3], static_cast<float>(loaded.sample.height_px) + 1e-3F);
      EXPECT_LT(loaded.sample.labels[i], 7);
    }
  }
}

TEST(SyntheticSource, HasImagesOfTheAskedSizeSomeUpright) {
  const SyntheticSource source(100, 80, 3, {900, 30});
  int upright = 0;
  for (const IndexEntry& entry : source.index()) {
    EXPECT_EQ(std::max(entry.width, entry.height), 900);
    EXPECT_EQ(std::min(entry.width, entry.height), 30);
    upright += entry.height == 900;
  }
  EXPECT_GT(upright, 5);
  EXPECT_LT(upright, 60);
}

}  // namespace
}  // namespace retina
