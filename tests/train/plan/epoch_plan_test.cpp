#include "train/plan/epoch_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "shared/base/cat.h"
#include "shared/image/resize.h"
#include "shared/numeric/random.h"
#include "train/plan/training_plan.h"

namespace retina {
namespace {

ImageIndex random_index(std::size_t count, std::uint64_t seed) {
  const RandomStream random{.seed = seed};
  ImageIndex index;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<int> labels;
    if (i % 3 == 0) labels.push_back(0);
    if (i % 20 == 1) labels.push_back(1);
    if (i == 7) labels.push_back(2);
    index.push_back({.image_id = static_cast<std::int64_t>(1000 + i),
                     .width = static_cast<int>(40 + random.below(2 * i, 600)),
                     .height = static_cast<int>(40 + random.below(2 * i + 1, 600)),
                     .labels = labels});
  }
  return index;
}

std::vector<std::size_t> records_of(const std::vector<BatchRequest>& micro_batches) {
  std::vector<std::size_t> records;
  for (const auto& micro_batch : micro_batches) {
    for (const auto& slot : micro_batch.slots) records.push_back(slot.record);
  }
  return records;
}

// Images 1..200 x ranks 1..7 x both shuffles x both samplers: sizes that divide and that do not.
class EpochPlanProperty : public testing::TestWithParam<std::tuple<int, Shuffle, Sampler>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  EpochPlanOptions options(int images_per_step) const {
    return {.seed = 5,
            .images_per_step = images_per_step,
            .shuffle = std::get<1>(GetParam()),
            .sampler = std::get<2>(GetParam()),
            .repeat_threshold = 0.3};
  }
};

TEST_P(EpochPlanProperty, VisitsEveryImageAsOftenAsItWasDrawnOverAllRanks) {
  for (std::size_t images = 1; images <= 200; ++images) {
    const auto index = random_index(images, images);
    const EpochPlan plan(index, options(2 * ranks()), 3);
    const auto draws = draw_images(index, options(2 * ranks()), 3);
    ASSERT_EQ(plan.step_count(), steps_per_data_epoch(draws.size(), 2 * ranks()));
    std::map<std::size_t, int> drawn;
    for (const Draw& draw : draws) ++drawn[draw.record];
    std::map<std::size_t, int> visits;
    for (std::int64_t step = 0; step < plan.step_count(); ++step) {
      const GlobalStep global = plan.step(step);
      int real_image_count = 0;
      for (int rank = 0; rank < ranks(); ++rank) {
        const auto micro_batches = rank_micro_batches(global, rank, ranks(), 1);
        ASSERT_EQ(micro_batches.size(), 2U) << "every rank takes the same number of passes";
        for (const auto& micro_batch : micro_batches) {
          for (const auto& slot : micro_batch.slots) {
            visits[slot.record] += slot.counts ? 1 : 0;
            real_image_count += slot.counts ? 1 : 0;
          }
        }
      }
      ASSERT_EQ(real_image_count, global.real_image_count);
    }
    ASSERT_EQ(visits, drawn) << images << " images";
    ASSERT_EQ(visits.size(), images);
  }
}

// A run may continue on any number of ranks up to the images of a step.
TEST_P(EpochPlanProperty, SharesAnyStepAmongAnyRanks) {
  const auto index = random_index(61, 9);
  for (int slots = ranks(); slots <= 3 * ranks() + 1; ++slots) {
    const EpochPlan plan(index, options(slots), 0);
    const GlobalStep step = plan.step(0);
    const auto whole = records_of(rank_micro_batches(step, 0, 1, 0));
    const auto most =
        largest_share(static_cast<std::size_t>(slots), static_cast<std::size_t>(ranks()));
    for (const int most_images : {0, 1, 2}) {
      std::vector<std::size_t> together;
      const std::size_t micro_batch_count =
          rank_micro_batches(step, 0, ranks(), most_images).size();
      for (int rank = 0; rank < ranks(); ++rank) {
        const auto micro_batches = rank_micro_batches(step, rank, ranks(), most_images);
        ASSERT_EQ(micro_batches.size(), micro_batch_count)
            << "collectives of a pass need all ranks";
        const auto part = records_of(micro_batches);
        ASSERT_GE(part.size() + 1, most);
        ASSERT_LE(part.size(), most);
        ASSERT_GE(part.size(), 1U);
        for (const auto& micro_batch : micro_batches) {
          if (most_images > 0) {
            ASSERT_LE(micro_batch.slots.size(), static_cast<std::size_t>(most_images));
          }
          ASSERT_EQ(micro_batch.padded.width, step.padded.width);
        }
        ASSERT_FALSE(micro_batches.back().slots.empty());
        together.insert(together.end(), part.begin(), part.end());
      }
      ASSERT_EQ(together, whole) << slots << " slots, " << most_images << " a pass";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, EpochPlanProperty,
    testing::Combine(testing::Range(1, 8), testing::Values(Shuffle::kGlobal, Shuffle::kSharded),
                     testing::Values(Sampler::kUniform, Sampler::kClassBalanced)));

// Sharded: slot s reads lane s in every step of every epoch, so a rank never leaves its own range.
TEST(ShardedPlan, ReadsEachSlotFromItsOwnLane) {
  for (const std::size_t images : {24U, 61U, 200U}) {
    for (const int slots : {1, 4, 6, 24}) {
      const auto index = random_index(images, images);
      for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
        const EpochPlan plan(
            index, {.seed = 2, .images_per_step = slots, .shuffle = Shuffle::kSharded}, epoch);
        for (std::int64_t step = 0; step < plan.step_count(); ++step) {
          const GlobalStep global = plan.step(step);
          for (std::size_t slot = 0; slot < global.slots.size(); ++slot) {
            const RecordRange lane = lane_records(images, slot, static_cast<std::size_t>(slots));
            ASSERT_GE(global.slots[slot].record, lane.begin);
            ASSERT_LT(global.slots[slot].record, lane.end);
          }
        }
      }
    }
  }
}

// What is drawn of a lane moves by one image at most: a rank reads its own shards in every epoch.
TEST(ShardedPlan, LanesOfABalancedPlanStayInPlace) {
  const auto index = random_index(400, 4);
  const EpochPlanOptions options{.seed = 1,
                                 .images_per_step = 8,
                                 .shuffle = Shuffle::kSharded,
                                 .sampler = Sampler::kClassBalanced,
                                 .repeat_threshold = 0.3};
  std::vector<std::size_t> lowest(8, index.size()), highest(8, 0);
  std::vector<std::size_t> first_lowest(8, 0), last_highest(8, index.size());
  for (std::int64_t epoch = 0; epoch < 50; ++epoch) {
    const EpochPlan plan(index, options, epoch);
    std::vector<std::size_t> low(8, index.size()), high(8, 0);
    for (std::int64_t step = 0; step < plan.step_count(); ++step) {
      const GlobalStep global = plan.step(step);
      for (std::size_t lane = 0; lane < 8; ++lane) {
        low[lane] = std::min(low[lane], global.slots[lane].record);
        high[lane] = std::max(high[lane], global.slots[lane].record);
      }
    }
    for (std::size_t lane = 0; lane < 8; ++lane) {
      lowest[lane] = std::min(lowest[lane], low[lane]);
      first_lowest[lane] = std::max(first_lowest[lane], low[lane]);
      highest[lane] = std::max(highest[lane], high[lane]);
      last_highest[lane] = std::min(last_highest[lane], high[lane]);
    }
  }
  for (std::size_t lane = 0; lane < 8; ++lane) {
    EXPECT_LE(first_lowest[lane] - lowest[lane], 2U) << lane;
    EXPECT_LE(highest[lane] - last_highest[lane], 2U) << lane;
  }
}

TEST(TrainingPlan, KnowsTheLargestPaddedShapeOfAnySteps) {
  const auto index = random_index(90, 4);
  EpochPlanOptions options{
      .seed = 2, .images_per_step = 4, .frame = {.min_side_px = 200, .max_side_px = 400}};
  for (const std::vector<int>& sides : {std::vector<int>{}, std::vector<int>{96, 128, 330}}) {
    options.min_sides_px = sides;
    TrainingPlan plan(index, options);
    const auto pixels = [](const ImageSize& size) { return size.width * size.height; };
    for (const auto& [begin, end] : {std::pair{0, 7}, {20, 21}, {13, 70}, {5, 5}}) {
      int most = 0;
      for (int step = begin; step < end; ++step) {
        const GlobalStep global = plan.at(step);
        most = std::max(most, pixels(global.padded));
      }
      EXPECT_EQ(pixels(plan.largest_padded(begin, end)), most) << begin << " to " << end;
    }
  }
  options.frame.framing = Framing::kSquare;
  EXPECT_EQ(TrainingPlan(index, options).largest_padded(3, 1'000'000'000).height, 330);
}

TEST(EpochPlan, DrawsAShorterSideForEachStepWithMultiScale) {
  const auto index = random_index(200, 3);
  const EpochPlanOptions options{.seed = 1,
                                 .images_per_step = 4,
                                 .frame = {.min_side_px = 200, .max_side_px = 400},
                                 .min_sides_px = {96, 128, 160}};
  const EpochPlan plan(index, options, 0), again(index, options, 0);
  std::map<int, int> drawn;
  for (std::int64_t step = 0; step < plan.step_count(); ++step) {
    const GlobalStep global = plan.step(step);
    ++drawn[global.frame.min_side_px];
    EXPECT_EQ(global.frame.min_side_px, again.step(step).frame.min_side_px);
    EXPECT_EQ(rank_micro_batches(global, 0, 2, 0).front().frame.min_side_px,
              global.frame.min_side_px);
  }
  ASSERT_EQ(drawn.size(), 3U) << "only sides of the list, each at least once in 50 steps";
  for (const auto& [side, count] : drawn) EXPECT_GT(count, 5) << side;
}

TEST(EpochPlan, CountsTheTailsRealImages) {
  const auto index = random_index(10, 1);
  const EpochPlan plan(index, {.seed = 1, .images_per_step = 4}, 0);
  EXPECT_EQ(plan.step(0).real_image_count, 4);
  EXPECT_EQ(plan.step(2).real_image_count, 2);
  const GlobalStep tail = plan.step(2);
  EXPECT_TRUE(tail.slots[1].counts);
  EXPECT_FALSE(tail.slots[2].counts);
  EXPECT_EQ(tail.slots[2].record, plan.step(0).slots[0].record) << "pads repeat the first images";
}

TEST(EpochPlan, PadsToTheLargestImageOfTheStep) {
  const auto index = random_index(64, 2);
  const EpochPlanOptions options{
      .seed = 1, .images_per_step = 8, .frame = {.min_side_px = 100, .max_side_px = 200}};
  const EpochPlan plan(index, options, 1);
  for (std::int64_t step = 0; step < plan.step_count(); ++step) {
    const GlobalStep global = plan.step(step);
    int width = 0, height = 0;
    for (const auto& slot : global.slots) {
      const auto size = resized_size(index[slot.record].width, index[slot.record].height, 100, 200);
      width = std::max(width, size.width);
      height = std::max(height, size.height);
    }
    EXPECT_EQ(global.padded.width, (width + 31) / 32 * 32);
    EXPECT_EQ(global.padded.height, (height + 31) / 32 * 32);
  }
}

// Portraits and landscapes, as COCO has them, in lanes that hold different shares of each.
TEST(EpochPlan, PadsLittleInBothShuffles) {
  const RandomStream random{.seed = 12};
  ImageIndex index;
  for (std::size_t i = 0; i < 8000; ++i) {
    const int side = static_cast<int>(400 + random.below(2 * i, 100));
    const bool portrait = random.unit(2 * i + 1) < 0.3;
    index.push_back({.width = portrait ? side : 640, .height = portrait ? 640 : side});
  }
  for (const Shuffle shuffle : {Shuffle::kSharded, Shuffle::kGlobal}) {
    const EpochPlan plan(index, {.seed = 3, .images_per_step = 16, .shuffle = shuffle}, 0);
    double used = 0, padded = 0;
    for (std::int64_t step = 0; step < plan.step_count(); ++step) {
      const GlobalStep global = plan.step(step);
      for (const Slot& slot : global.slots) {
        const IndexEntry image = index[slot.record];
        const ResizedSize size = resized_size(image.width, image.height, 800, 1333);
        used += static_cast<double>(size.width) * size.height;
        padded += static_cast<double>(global.padded.width) * global.padded.height;
      }
    }
    EXPECT_LT(1 - used / padded, 0.08) << "share of padding";
  }
}

// However rare its shape: an image's neighbours in a step are others in the next epoch.
TEST(EpochPlan, MixesTheImagesOfAStepAnewEachEpoch) {
  const auto index = random_index(64, 8);
  for (const Shuffle shuffle : {Shuffle::kSharded, Shuffle::kGlobal}) {
    std::set<std::set<std::size_t>> steps;
    for (std::int64_t epoch = 0; epoch < 10; ++epoch) {
      const EpochPlan plan(index, {.seed = 1, .images_per_step = 4, .shuffle = shuffle}, epoch);
      for (std::int64_t step = 0; step < plan.step_count(); ++step) {
        const auto records = records_of(rank_micro_batches(plan.step(step), 0, 1, 0));
        steps.insert({records.begin(), records.end()});
      }
    }
    EXPECT_GT(steps.size(), 140U) << "of 160";
  }
}

TEST(EpochPlan, DrawsAnotherOrderEachEpochAndSeed) {
  const auto index = random_index(50, 4);
  const auto first = [&](std::uint64_t seed, std::int64_t epoch) {
    return records_of(rank_micro_batches(
        EpochPlan(index, {.seed = seed, .images_per_step = 5}, epoch).step(0), 0, 1, 0));
  };
  EXPECT_NE(first(1, 0), first(1, 1));
  EXPECT_NE(first(1, 0), first(2, 0));
  EXPECT_EQ(first(1, 5), first(1, 5));
}

TEST(TrainingPlan, ContinuesTheSameSequenceFromAnyStep) {
  const auto index = random_index(13, 6);
  const EpochPlanOptions options{.seed = 2, .images_per_step = 4};
  TrainingPlan whole(index, options);
  std::vector<std::vector<std::size_t>> sequence;
  for (std::int64_t step = 0; step < 20; ++step) {
    sequence.push_back(records_of(rank_micro_batches(whole.at(step), 0, 1, 0)));
  }
  for (std::int64_t start = 0; start < 20; ++start) {
    TrainingPlan resumed(index, options);
    for (std::int64_t step = start; step < 20; ++step) {
      ASSERT_EQ(records_of(rank_micro_batches(resumed.at(step), 0, 1, 0)),
                sequence[static_cast<std::size_t>(step)])
          << "started at " << start << ", step " << step;
    }
  }
}

TEST(TrainingPlan, CopiesOfAnImageAreMirroredByThemselves) {
  const ImageIndex index = random_index(100, 6);
  const EpochPlanOptions options{.seed = 2,
                                 .images_per_step = 10,
                                 .sampler = Sampler::kClassBalanced,
                                 .repeat_threshold = 1,
                                 .augment = {.flip = 0.5}};
  std::set<bool> mirrored;
  const EpochPlan plan(index, options, 0);
  for (std::int64_t step = 0; step < plan.step_count(); ++step) {
    for (const Slot& slot : plan.step(step).slots) {
      if (slot.record == 7) mirrored.insert(slot.flip);
    }
  }
  EXPECT_EQ(mirrored.size(), 2U) << "ten copies, all mirrored alike";
}

TEST(TrainingPlan, CountsShortEpochsApartFromPassesOverTheData) {
  const auto index = random_index(13, 6);
  const EpochPlanOptions options{.seed = 2, .images_per_step = 4};
  TrainingPlan plain(index, options), short_epochs(index, options, 3);
  EXPECT_EQ(plain.steps_per_epoch(), 4);
  EXPECT_EQ(short_epochs.steps_per_epoch(), 3);
  EXPECT_EQ(short_epochs.epoch_of(5), 1);
  for (std::int64_t step = 0; step < 12; ++step) {
    EXPECT_EQ(records_of(rank_micro_batches(plain.at(step), 0, 1, 0)),
              records_of(rank_micro_batches(short_epochs.at(step), 0, 1, 0)))
        << "the data does not care";
  }
}

}  // namespace
}  // namespace retina
