#include "train/plan/step_loader.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "preprocess/packer.h"
#include "shared/base/hash.h"
#include "shared/data/training_sources.h"
#include "shared/shard/shard_set.h"
#include "tests/support/scenes/data_set.h"
#include "tests/support/test_folder.h"
#include "train/plan/training_plan.h"

namespace retina {
namespace {

// An index alone: images in shards of ten.
class Shards : public SampleSource {
 public:
  explicit Shards(std::uint32_t image_count) {
    for (std::uint32_t i = 0; i < image_count; ++i) {
      index_.push_back(
          {.image_id = i, .width = 64, .height = 48, .shard = i / 10, .place = i % 10});
    }
  }
  const ImageIndex& index() const override { return index_; }
  Sample load(const BatchRequest&, std::size_t, JpegDecoder&, PixelTarget) const override {
    return {};
  }

 private:
  ImageIndex index_;
};

std::vector<std::size_t> sorted(std::vector<std::size_t> shards) {
  std::sort(shards.begin(), shards.end());
  return shards;
}

class ShardsAhead : public testing::Test {
 protected:
  std::vector<std::size_t> ahead(int rank, int rank_count, std::int64_t begin,
                                 std::int64_t end = 1000,
                                 Shuffle shuffle = Shuffle::kSharded) const {
    return shards_ahead({.source = source_,
                         .plan = {source_.index(), {.images_per_step = 8, .shuffle = shuffle}},
                         .rank = rank,
                         .rank_count = rank_count,
                         .begin = begin,
                         .end = end},
                        {.begin = 0, .end = source_.index().size()});
  }

  Shards source_{160};  // 16 shards, 20 steps a pass
};

TEST_F(ShardsAhead, AreThoseOfTheRanksOwnLanes) {
  for (const int ranks : {1, 2, 4, 8}) {
    for (const std::int64_t begin : {0, 7, 19, 20, 33}) {
      for (int rank = 0; rank < ranks; ++rank) {
        std::vector<std::size_t> own;
        for (int shard = 16 * rank / ranks; shard < 16 * (rank + 1) / ranks; ++shard) {
          own.push_back(static_cast<std::size_t>(shard));
        }
        EXPECT_EQ(sorted(ahead(rank, ranks, begin)), own) << rank << " of " << ranks;
      }
    }
  }
}

TEST_F(ShardsAhead, ComeInTheOrderOfTheirFirstUse) {
  for (const Shuffle shuffle : {Shuffle::kSharded, Shuffle::kGlobal}) {
    TrainingPlan plan(source_.index(), {.images_per_step = 8, .shuffle = shuffle});
    for (const std::int64_t begin : {0, 13}) {
      std::vector<std::size_t> wanted;
      for (std::int64_t step = begin; step < 40; ++step) {
        const GlobalStep whole = plan.at(step);
        for (std::size_t slot = 4; slot < 8; ++slot) {  // rank 1 of 2
          const std::size_t shard = source_.index()[whole.slots[slot].record].shard;
          if (std::find(wanted.begin(), wanted.end(), shard) == wanted.end()) {
            wanted.push_back(shard);
          }
        }
      }
      EXPECT_EQ(ahead(1, 2, begin, 1000, shuffle), wanted) << begin;
    }
  }
}

TEST_F(ShardsAhead, EndWithTheRun) {
  EXPECT_LE(ahead(0, 2, 0, 1).size(), 4U);
  EXPECT_TRUE(ahead(0, 2, 20, 20).empty());
}

// Fewer images than lanes: those without any borrow what counts elsewhere.
TEST_F(ShardsAhead, LeaveOutWhatOnlyFillsAStep) {
  const Shards few(4);
  std::size_t lists = 0;
  for (int rank = 0; rank < 8; ++rank) {
    lists += shards_ahead({.source = few,
                           .plan = {few.index(), {.images_per_step = 8}},
                           .rank = rank,
                           .rank_count = 8,
                           .begin = 0,
                           .end = 10},
                          {.begin = 0, .end = 4})
                 .size();
  }
  EXPECT_EQ(lists, 4U);
}

// Two sets of 60 and 100 images, each with shards from 0 on.
TEST(ShardsAheadOfTwoSets, AreThoseOfTheSetThatIsAskedFor) {
  std::vector<SourcePart> parts;
  parts.push_back({.source = std::make_unique<Shards>(60)});
  parts.push_back({.source = std::make_unique<Shards>(100)});
  const ConcatenatedSource both(std::move(parts));
  const auto ahead = [&](int rank, const RecordRange& set) {
    return sorted(
        shards_ahead({.source = both,
                      .plan = {both.index(), {.images_per_step = 8, .shuffle = Shuffle::kSharded}},
                      .rank = rank,
                      .rank_count = 2,
                      .end = 1000},
                     set));
  };
  using List = std::vector<std::size_t>;
  const RecordRange first = {.begin = 0, .end = 60}, second = {.begin = 60, .end = 160};
  // The images 0 to 79 are rank 0's.
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ahead(rank, first), rank == 0 ? List({0, 1, 2, 3, 4, 5}) : List());
    EXPECT_EQ(ahead(rank, second), rank == 0 ? List({0, 1}) : List({2, 3, 4, 5, 6, 7, 8, 9}));
  }
}

// What training sees of the step's images: pixels, padding, boxes, labels.
std::vector<std::uint64_t> hashes_of(const Batch& batch) {
  const std::size_t values = std::size_t{3} * static_cast<std::size_t>(batch.padded.height) *
                             static_cast<std::size_t>(batch.padded.width);
  std::vector<std::uint64_t> hashes;
  for (std::size_t i = 0; i < batch.samples.size(); ++i) {
    const Sample& sample = batch.samples[i];
    Hasher hasher;
    hasher.update(batch.images.get() + i * values, values * sizeof(float));
    hasher.update(sample.boxes.data(), sample.boxes.size() * sizeof(sample.boxes[0]));
    hasher.update(sample.labels.data(), sample.labels.size() * sizeof(sample.labels[0]));
    hasher.update(&sample.slot.counts, sizeof(sample.slot.counts));
    hashes.push_back(hasher.digest());
  }
  return hashes;
}

// Of all images of the steps begin..end-1, as `rank_count` ranks load them.
std::vector<std::vector<std::uint64_t>> load_all(const SampleSource& source,
                                                 const EpochPlanOptions& plan, std::int64_t begin,
                                                 std::int64_t end, int rank_count) {
  std::vector<std::vector<std::uint64_t>> steps(static_cast<std::size_t>(end - begin));
  for (int rank = 0; rank < rank_count; ++rank) {
    const auto loader = load_steps({.source = source,
                                    .plan = {source.index(), plan},
                                    .micro_batch = rank_count == 1 ? 3 : 0,
                                    .threads = {.first = 1 + rank, .most = 1 + rank},
                                    .rank = rank,
                                    .rank_count = rank_count,
                                    .begin = begin,
                                    .end = end});
    while (const auto batch = loader->next()) {
      for (const std::uint64_t hash : hashes_of(*batch)) {
        steps[static_cast<std::size_t>(batch->part.step - begin)].push_back(hash);
      }
    }
  }
  return steps;
}

// 14 images in steps of four, two passes and a little: a tail with pad slots comes twice.
TEST(StepLoader, ContinuedAtAnyStepOnAnyRanksLoadsTheSamePixelsWithEveryAugmentation) {
  const TestFolder folder;
  const std::string scenes = folder / "scenes";
  scenes::write_data_set(
      {.output = scenes, .train_count = 14, .validation_count = 1, .intact = true});
  pack({.annotations = scenes + "/annotations/instances_train2017.json",
        .images = scenes + "/images/train2017",
        .output = folder / "shards"});
  const ShardSet shards(folder / "shards");
  const ShardSource source(shards);
  AugmentOptions every = options_of(Augment::kLight);
  every.vertical_flip = 0.5;
  every.crop = {0.3, 1};
  constexpr std::int64_t kSteps = 10;
  for (const AugmentOptions& augment : {every, options_of(Augment::kStrong)}) {
    const EpochPlanOptions plan{.seed = 5,
                                .images_per_step = 4,
                                .shuffle = Shuffle::kSharded,
                                .frame = {.max_side_px = 128},
                                .min_sides_px = {64, 80, 96},
                                .augment = augment};
    const auto whole = load_all(source, plan, 0, kSteps, 1);
    ASSERT_EQ(whole[3].size(), 4U);
    EXPECT_NE(whole[0], whole[4]) << "each pass changes the images anew";
    for (const int ranks : {1, 2, 4}) {
      for (std::int64_t begin = 0; begin < kSteps; ++begin) {
        const std::vector rest(whole.begin() + begin, whole.end());
        EXPECT_EQ(load_all(source, plan, begin, kSteps, ranks), rest)
            << ranks << " ranks from step " << begin;
      }
    }
  }
}

}  // namespace
}  // namespace retina
