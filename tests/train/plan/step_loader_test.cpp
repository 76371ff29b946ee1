#include "train/plan/step_loader.h"

#include <gtest/gtest.h>

#include <algorithm>

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
  const std::vector<IndexEntry>& index() const override { return index_; }
  Sample load(const BatchRequest&, std::size_t, JpegDecoder&, PixelTarget) const override {
    return {};
  }

 private:
  std::vector<IndexEntry> index_;
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
    return shards_ahead({.train = train_,
                         .plan = {.images_per_step = 8, .shuffle = shuffle},
                         .rank = rank,
                         .rank_count = rank_count,
                         .begin = begin,
                         .end = end});
  }

  Shards source_{160};  // 16 shards, 20 steps a pass
  TrainingSet train_{.source = source_};
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
  const TrainingSet train{.source = few};
  std::size_t lists = 0;
  for (int rank = 0; rank < 8; ++rank) {
    lists += shards_ahead({.train = train,
                           .plan = {.images_per_step = 8},
                           .rank = rank,
                           .rank_count = 8,
                           .begin = 0,
                           .end = 10})
                 .size();
  }
  EXPECT_EQ(lists, 4U);
}

}  // namespace
}  // namespace retina
