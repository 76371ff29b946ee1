#include "shared/data/training_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "shared/base/error.h"

namespace retina {
namespace {

constexpr int kPaddedPx = 64;

BatchRequest request_of(std::vector<Slot> slots) {
  return {.slots = std::move(slots),
          .frame = {.min_side_px = 32, .max_side_px = 64},
          .padded = {kPaddedPx, kPaddedPx},
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

// Some of its images are damaged.
class DamagedSource : public SyntheticSource {
 public:
  explicit DamagedSource(std::set<std::size_t> damaged, ErrorKind kind = ErrorKind::kData)
      : SyntheticSource(60, 5, 7), damaged_(std::move(damaged)), kind_(kind) {}
  Sample load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
              PixelTarget pixels) const override {
    const std::size_t record = request.slots[place].record;
    if (damaged_.contains(record)) throw Error(kind_, cat("record ", record, ": is damaged"));
    return SyntheticSource::load(request, place, decoder, pixels);
  }

 private:
  std::set<std::size_t> damaged_;
  ErrorKind kind_;
};

ReplacingSource replacing(std::set<std::size_t> damaged, ErrorKind kind = ErrorKind::kData) {
  return ReplacingSource(std::make_unique<DamagedSource>(std::move(damaged), kind));
}

TEST(ReplacingSource, TakesTheNextWholeImageForADamagedOneInItsSlot) {
  const ReplacingSource source = replacing({7, 8});
  const Loaded stands_in =
      load(source, request_of({{.record = 3}, {.record = 7, .flip = true, .counts = false}}), 1);
  const Loaded next = load(source, request_of({{.record = 9}}), 0);
  EXPECT_EQ(stands_in.pixels, next.pixels);
  EXPECT_EQ(stands_in.sample.boxes, next.sample.boxes);
  EXPECT_EQ(stands_in.sample.image_id, 10);
  EXPECT_TRUE(stands_in.sample.slot.flip);
  EXPECT_FALSE(stands_in.sample.slot.counts) << "a pad slot stays one";
  ASSERT_TRUE(stands_in.sample.replaced.has_value());
  EXPECT_EQ(stands_in.sample.replaced->record, 7U);
  EXPECT_EQ(stands_in.sample.replaced->problem, "record 7: is damaged");
  EXPECT_FALSE(next.sample.replaced.has_value());
}

TEST(ReplacingSource, GoesOnAtTheBeginningAfterTheLast) {
  const Loaded stands_in = load(replacing({59}), request_of({{.record = 59}}), 0);
  EXPECT_EQ(stands_in.sample.image_id, 1);
}

TEST(ReplacingSource, TakesOnlyWhatFitsTheStepsShape) {
  BatchRequest request = request_of({{.record = 0}});
  request.padded.height = 32;  // no room for a portrait
  const ImageIndex index = replacing({}).index();
  for (std::size_t record = 0; record + 1 < index.size(); ++record) {
    if (index[record].width < index[record].height) continue;
    request.slots[0].record = record;
    const Loaded stands_in = load(replacing({record}), request, 0);
    EXPECT_LE(stands_in.sample.height_px, 32);
    EXPECT_NE(stands_in.sample.image_id, index[record].image_id);
  }
}

TEST(ReplacingSource, TakesOnlyWhatFitsTheRoomOfADamagedImageThatIsStored) {
  // All synthetic images have as many pixels: this one's index says that it is a row smaller.
  class SmallerSource : public DamagedSource {
   public:
    SmallerSource() : DamagedSource({7}) {
      const ImageIndex& all = DamagedSource::index();
      for (std::size_t record = 0; record < all.size(); ++record) {
        const bool is_small = record == 7 || record == 12;
        IndexEntry entry = all[is_small ? 7 : record];
        entry.height += is_small ? -1 : 1;
        index_.push_back(entry);
      }
    }
    const ImageIndex& index() const override { return index_; }
    Sample load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
                PixelTarget pixels) const override {
      if (request.slots[place].record != 12) {
        return DamagedSource::load(request, place, decoder, pixels);
      }
      return {.slot = request.slots[place], .image_id = 13};
    }

   private:
    ImageIndex index_;
  };
  const ReplacingSource source(std::make_unique<SmallerSource>());
  std::vector<std::uint8_t> pixels(stored_bytes(source.index()[7]));
  JpegDecoder decoder;
  const BatchRequest request = request_of({{.record = 7}});
  EXPECT_EQ(source.load(request, 0, decoder, pixels.data()).image_id, 13);
  EXPECT_EQ(load(source, request, 0).sample.image_id, 9) << "the network's form has room for any";
}

TEST(ReplacingSource, LeavesEverythingElseToTheCaller) {
  std::set<std::size_t> all;
  for (std::size_t record = 0; record < 60; ++record) all.insert(record);
  const auto message = [](const ReplacingSource& source) {
    try {
      load(source, request_of({{.record = 7}}), 0);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message(replacing(all)), "record 7: is damaged") << "the first, not the last tried";
  EXPECT_EQ(message(replacing({7}, ErrorKind::kIo)), "record 7: is damaged") << "a lost mount";
}

}  // namespace
}  // namespace retina
