#include "shared/data/concatenated_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "shared/base/error.h"

namespace retina {
namespace {

constexpr int kPaddedPx = 64;

// Five classes, of which its index tells three of each image.
class Labelled : public SyntheticSource {
 public:
  Labelled(std::int64_t count, std::uint64_t seed, Task task = Task::kDetection)
      : SyntheticSource(count, 5, seed, {640, 480}, task) {
    for (IndexEntry entry : SyntheticSource::index()) {
      const std::vector<int> labels{static_cast<int>(index_.size() % 2), 2, 4};
      entry.labels = labels;
      entry.shard = static_cast<std::uint32_t>(index_.size() / 4);
      index_.push_back(entry);
    }
  }
  const ImageIndex& index() const override { return index_; }

 private:
  ImageIndex index_;
};

BatchRequest request_of(std::vector<Slot> slots) {
  return {.slots = std::move(slots),
          .min_side_px = 32,
          .max_side_px = 64,
          .padded_width_px = kPaddedPx,
          .padded_height_px = kPaddedPx,
          .part = {.step = 3}};
}

struct Loaded {
  Sample sample;
  std::vector<float> pixels = std::vector<float>(std::size_t{3} * kPaddedPx * kPaddedPx);
};

Loaded load(const SampleSource& source, const BatchRequest& request, std::size_t place) {
  Loaded loaded;
  JpegDecoder decoder;
  loaded.sample = source.load(request, place, decoder, loaded.pixels.data());
  return loaded;
}

// The image of `slot` in the second place of a step.
Loaded load(const SampleSource& source, const Slot& slot) {
  return load(source, request_of({{.record = 0}, slot}), 1);
}

const std::vector<int> kOtherLabels = {1, 0, 4, 2, 3};

ConcatenatedSource three_parts(Task task = Task::kDetection) {
  std::vector<SourcePart> parts;
  parts.push_back({.source = std::make_unique<Labelled>(6, 1, task)});
  parts.push_back({.source = std::make_unique<Labelled>(1, 2, task), .labels = kOtherLabels});
  parts.push_back({.source = std::make_unique<Labelled>(8, 3, task)});
  return ConcatenatedSource(std::move(parts));
}

TEST(ConcatenatedSource, HasTheImagesOfOneAfterThoseOfTheOther) {
  const ConcatenatedSource all = three_parts();
  const Labelled first(6, 1), third(8, 3);
  ASSERT_EQ(all.index().size(), 15U);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(all.index()[i], first.index()[i]);
  // Ids, and numbers of shards, come again.
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(all.index()[7 + i], third.index()[i]);
}

TEST(ConcatenatedSource, GivesASampleAsItsPartDoesInItsOwnSlot) {
  const ConcatenatedSource all = three_parts();
  const Labelled first(6, 1), second(1, 2), third(8, 3);
  const struct {
    const SampleSource& part;
    std::size_t record, in_part;
  } cases[] = {{first, 0, 0}, {first, 5, 5}, {second, 6, 0}, {third, 7, 0}, {third, 14, 7}};
  for (const auto& [part, record, in_part] : cases) {
    const Loaded got = load(all, {.record = record, .flip = true, .counts = false});
    const Loaded wanted = load(part, {.record = in_part, .flip = true, .counts = false});
    EXPECT_EQ(got.pixels, wanted.pixels) << record;
    EXPECT_EQ(got.sample.boxes, wanted.sample.boxes) << record;
    EXPECT_EQ(got.sample.image_id, wanted.sample.image_id) << record;
    EXPECT_EQ(got.sample.slot.record, record) << "a place in the whole index";
    EXPECT_TRUE(got.sample.slot.flip && !got.sample.slot.counts);
  }
  EXPECT_THROW(load(all, {.record = 15}), std::exception);
}

TEST(ConcatenatedSource, MapsTheClassesOfIndexAndSamples) {
  const ConcatenatedSource all = three_parts();
  EXPECT_THAT(all.index()[5].labels, testing::ElementsAre(1, 2, 4));
  EXPECT_THAT(all.index()[6].labels, testing::ElementsAre(1, 3, 4)) << "of {0, 2, 4}, ascending";
  for (const Task task : {Task::kDetection, Task::kClassification}) {
    const std::vector<std::int64_t> own = load(Labelled(1, 2, task), {.record = 0}).sample.labels;
    const std::vector<std::int64_t> mapped = load(three_parts(task), {.record = 6}).sample.labels;
    ASSERT_EQ(mapped.size(), own.size());
    ASSERT_FALSE(own.empty());
    for (std::size_t i = 0; i < own.size(); ++i)
      EXPECT_EQ(mapped[i], kOtherLabels[static_cast<std::size_t>(own[i])]);
  }
}

}  // namespace
}  // namespace retina
