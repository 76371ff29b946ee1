#include "shared/evaluation/predict/detect.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/comm/communicator.h"
#include "shared/data/sample_source.h"
#include "shared/data/tiled_source.h"
#include "shared/evaluation/score/ground_truth.h"
#include "shared/evaluation/score/metrics.h"
#include "shared/image/jpeg.h"
#include "shared/image/resize.h"
#include "tests/evaluation/tiny_world.h"
#include "tests/support/ranks/thread_world.h"
#include "tests/support/test_folder.h"

namespace retina {

bool operator==(const Detection& a, const Detection& b) {
  return a.image_id == b.image_id && a.category_id == b.category_id && a.bbox == b.bbox &&
         a.score == b.score;
}

namespace {

constexpr int kImageCount = 7;

// Fresh networks score about .01: a low threshold makes them find something.
PostprocessOptions generous() {
  PostprocessOptions options;
  options.score_threshold = 0.008;
  options.max_detections = 20;
  return options;
}

class Detect : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    at::set_num_threads(1);  // waiting threads cost more than they give on so small a network
    folder_ = new TestFolder;
    truth_ = new Instances(write_tiny_shards(*folder_ / "shards", kImageCount));
    shards_ = new ShardSet(*folder_ / "shards");
    network_ = new RetinaNet(tiny_network(5));
  }
  static void TearDownTestSuite() {
    delete network_;
    delete shards_;
    delete truth_;
    delete folder_;
  }

  static std::vector<Detection> run(DetectOptions options) {
    options.postprocess = generous();
    const auto self = make_self_communicator();
    return detect(*network_, {ShardSource(*shards_), truth_->categories, *self}, options);
  }

  static TestFolder* folder_;
  static Instances* truth_;
  static ShardSet* shards_;
  static RetinaNet* network_;
};
TestFolder* Detect::folder_ = nullptr;
Instances* Detect::truth_ = nullptr;
ShardSet* Detect::shards_ = nullptr;
RetinaNet* Detect::network_ = nullptr;

TEST_F(Detect, VisitsEveryImageOnceInIdOrder) {
  std::int64_t last_done = 0;
  const auto found = run({.on_progress = [&](std::int64_t done, std::int64_t total) {
    EXPECT_EQ(total, kImageCount);
    last_done = done;
  }});
  EXPECT_EQ(last_done, kImageCount);
  std::set<std::int64_t> ids;
  for (std::size_t i = 0; i < found.size(); ++i) {
    ids.insert(found[i].image_id);
    if (i == 0) continue;
    EXPECT_GE(found[i].image_id, found[i - 1].image_id);
    if (found[i].image_id == found[i - 1].image_id) {
      EXPECT_LE(found[i].score, found[i - 1].score);
    }
  }
  EXPECT_EQ(ids.size(), kImageCount);
}

// The whole chain by hand for one image: the reference that the loader and the batches must equal.
TEST_F(Detect, EqualsTheNetworkRunByHand) {
  const IndexEntry entry = shards_->index().front();
  const Record record = shards_->read(0);
  Image image;
  JpegDecoder decoder;
  ASSERT_TRUE(decoder.decode(record.image, image).ok);
  const ModelConfig& config = network_->config();
  const ResizedSize size =
      resized_size(image.width, image.height, config.min_side_px, config.max_side_px);
  const PixelSize padded{.height = padded_side_px(size.height),
                         .width = padded_side_px(size.width)};
  const at::Tensor input = at::zeros({1, 3, padded.height, padded.width});
  resize_normalise(image,
                   {.width = size.width,
                    .height = size.height,
                    .row_stride = padded.width,
                    .plane_stride = static_cast<std::int64_t>(padded.width) * padded.height},
                   {}, input.mutable_data_ptr<float>());
  const at::NoGradGuard no_gradients;
  network_->set_training(false);
  const auto by_hand = postprocess(network_->forward(input), config, padded,
                                   {{.height = size.height, .width = size.width}}, generous());
  ASSERT_GT(by_hand[0].scores.size(0), 0);

  std::vector<Detection> found = run({});
  std::erase_if(found, [&](const Detection& one) { return one.image_id != entry.image_id; });
  ASSERT_EQ(static_cast<std::int64_t>(found.size()), by_hand[0].scores.size(0));
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    const at::Tensor box = by_hand[0].boxes[row];
    const float to_x = static_cast<float>(image.width) / static_cast<float>(size.width);
    const float to_y = static_cast<float>(image.height) / static_cast<float>(size.height);
    const float x1 = box[0].item<float>() * to_x, y1 = box[1].item<float>() * to_y;
    const float x2 = box[2].item<float>() * to_x, y2 = box[3].item<float>() * to_y;
    EXPECT_THAT(found[i].bbox, testing::ElementsAre(x1, y1, x2 - x1, y2 - y1));
    EXPECT_EQ(found[i].score, by_hand[0].scores[row].item<float>());
    const auto label = static_cast<std::size_t>(by_hand[0].labels[row].item<std::int64_t>());
    EXPECT_EQ(found[i].category_id, truth_->categories[label].id);
  }
}

TEST_F(Detect, DecodeThreadsDoNotChangeABit) {
  EXPECT_EQ(run({.decode_threads = 1}), run({.decode_threads = 3, .prefetch_batches = 2}));
}

TEST_F(Detect, BatchesOfEqualShapesFindTheSame) {
  const auto alone = run({.images_per_batch = 1});
  const auto together = run({.images_per_batch = 3});
  ASSERT_EQ(alone.size(), together.size());
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(alone[i].image_id, together[i].image_id);
    EXPECT_NEAR(alone[i].score, together[i].score, 1e-5);
  }
}

TEST_F(Detect, TheFirstImagesByIdCanBeChosen) {
  const auto some = run({.max_images = 4});
  const auto all = run({});
  std::vector<Detection> expected = all;
  std::erase_if(expected, [](const Detection& one) { return one.image_id >= 1004; });
  EXPECT_EQ(some, expected);
}

TEST_F(Detect, AShareEndsWhereItIsToldTo) {
  const auto self = make_self_communicator();
  const ShardSource samples(*shards_);
  const PredictionInput input{samples, truth_->categories, *self};
  DetectOptions options{.postprocess = generous()};
  int asked = 0;
  std::int64_t visited = 0;
  options.should_stop = [&] { return ++asked > 3; };
  options.on_progress = [&](std::int64_t done, std::int64_t) { visited = done; };
  const auto part = detect_share(*network_, input, options);
  EXPECT_EQ(visited, 3);
  options.should_stop = {};
  const auto all = detect_share(*network_, input, options);
  EXPECT_EQ(visited, kImageCount);
  ASSERT_LT(part.size(), all.size());
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin()));
}

TEST_F(Detect, LeavesTheNetworkAsItWas) {
  RetinaNet network = tiny_network(6);
  const at::Tensor before = state_of(network)[3].tensor.clone();
  const auto self = make_self_communicator();
  detect(network, {ShardSource(*shards_), truth_->categories, *self},
         {.postprocess = generous(), .max_images = 2});
  EXPECT_TRUE(network.is_training());
  EXPECT_TRUE(at::equal(before, state_of(network)[3].tensor));
}

TEST_F(Detect, TheGroundTruthOfShardsIsWhatWasPacked) {
  const Instances read = ground_truth_of(*shards_);
  EXPECT_EQ(instances_to_json(read), instances_to_json(*truth_));
  EXPECT_GT(read.annotations.size(), 10U);
}

TEST_F(Detect, KeptImagesKeepTheirAnnotationsOnly) {
  Instances truth = *truth_;
  keep_first_images(truth, 5);
  EXPECT_EQ(truth.images.size(), 5U);
  EXPECT_EQ(truth.images.back().id, 1004);
  EXPECT_EQ(truth.annotations.size(), 0U + 1 + 2 + 3 + 4);
}

// The shards' images, but one of them cannot be decoded.
class OneIsDamaged : public SampleSource {
 public:
  OneIsDamaged(const ShardSet& shards, std::size_t damaged) : all_(shards), damaged_(damaged) {}
  const ImageIndex& index() const override { return all_.index(); }
  Sample load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
              PixelTarget pixels) const override {
    Sample sample = all_.load(request, place, decoder, pixels);
    if (sample.slot.record == damaged_)
      sample.problem = FileProblem{.kind = "damaged", .reason = "made so"};
    return sample;
  }

 private:
  ShardSource all_;
  std::size_t damaged_;
};

TEST_F(Detect, AImageThatIsLeftOutChangesNoOther) {
  const auto self = make_self_communicator();
  for (const int images_per_batch : {1, 3}) {
    const OneIsDamaged source(*shards_, 2);
    std::vector<std::size_t> left_out;
    std::int64_t visited = 0;
    const DetectOptions options{
        .postprocess = generous(),
        .images_per_batch = images_per_batch,
        .on_progress = [&](std::int64_t done, std::int64_t) { visited = done; },
        .on_skipped =
            [&](std::size_t place, const FileProblem& problem) {
              left_out.push_back(place);
              EXPECT_EQ(problem.reason, "made so");
            }};
    std::vector<Detection> expected = run({.images_per_batch = images_per_batch});
    const std::int64_t missing_id = shards_->index()[2].image_id;
    EXPECT_GT(
        std::erase_if(expected, [&](const Detection& one) { return one.image_id == missing_id; }),
        0U);
    EXPECT_EQ(detect(*network_, {source, truth_->categories, *self}, options), expected);
    EXPECT_THAT(left_out, testing::ElementsAre(2));
    EXPECT_EQ(visited, kImageCount);
  }
}

// Tiles of 64 px with two fifths of overlap: several of every image.
const TileGrid kGrid{.side_px = 64, .overlap = .4};

TEST_F(Detect, OfTilesAreMergedIntoThoseOfWholeImages) {
  write_tiles(*shards_, kGrid, *folder_ / "tiles");
  const ShardSet tiles(*folder_ / "tiles");
  EXPECT_EQ(instances_to_json(ground_truth_of(tiles)), instances_to_json(*truth_));
  const auto self = make_self_communicator();
  const ShardSource images(*shards_), packed(tiles);
  const TiledSource cut(
      images, {.sides_px = {kGrid.side_px}, .overlap = kGrid.overlap, .with_whole = false});
  ASSERT_EQ(cut.index().size(), tiles.index().size());
  const DetectOptions options{.postprocess = generous(), .max_images = 2};
  const PredictionInput input{packed, truth_->categories, *self};
  const auto share = detect_share(*network_, input, options);
  const auto merged = gather_detections(share, input, options);
  EXPECT_EQ(detect(*network_, {cut, truth_->categories, *self}, options), merged);
  EXPECT_LT(merged.size(), share.size());
  EXPECT_GT(merged.size(), 0U);
  std::size_t beyond_the_first_tile = 0;
  for (const Detection& one : merged) {
    const auto image = std::find_if(truth_->images.begin(), truth_->images.end(),
                                    [&](const auto& info) { return info.id == one.image_id; });
    ASSERT_NE(image, truth_->images.end());
    EXPECT_LE(one.bbox[0] + one.bbox[2], image->width + 1e-3);
    EXPECT_LE(one.bbox[1] + one.bbox[3], image->height + 1e-3);
    beyond_the_first_tile += one.bbox[0] + one.bbox[2] > kGrid.side_px ? 1 : 0;
  }
  EXPECT_GT(beyond_the_first_tile, 0U);
}

TEST_F(Detect, OfTilesAreTheSameOnAnyNumberOfRanksAndThreads) {
  const ShardSource images(*shards_);
  const TiledSource cut(images, {.sides_px = {kGrid.side_px}});
  std::vector<Detection> alone;
  for (const int rank_count : {1, 3}) {
    ThreadWorld world({.ring = {.ranks = rank_count}});
    std::vector<Detection> all;
    std::vector<RetinaNet> networks;
    for (int i = 0; i < rank_count; ++i) networks.push_back(tiny_network(5));
    const auto ends = world.run([&](ThreadRank& rank) {
      auto found =
          detect(networks[static_cast<std::size_t>(rank.rank())], {cut, truth_->categories, rank},
                 {.postprocess = generous(), .decode_threads = rank_count, .max_images = 2});
      if (rank.is_root()) all = std::move(found);
    });
    for (const RankOutcome& end : ends) EXPECT_EQ(end.message, "");
    if (rank_count == 1) alone = all;
    EXPECT_GT(all.size(), 0U);
    EXPECT_EQ(all, alone) << rank_count;
  }
}

TEST_F(Detect, In16BitFindsNearlyTheSameAndLeavesFp32AsItWas) {
  const auto before = run({});
  // The best detection of each image: a score within bfloat16's 8 bits.
  const auto best = [](const std::vector<Detection>& found) {
    std::map<std::int64_t, double> scores;
    for (const Detection& one : found) {
      scores[one.image_id] = std::max(scores[one.image_id], one.score);
    }
    return scores;
  };
  for (const Precision precision : {Precision::kBf16, Precision::kFp16}) {
    const auto narrow = run({.precision = precision});
    EXPECT_EQ(run({}), before);
    EXPECT_NE(narrow, before);
    const auto expected = best(before), got = best(narrow);
    ASSERT_EQ(expected.size(), got.size());
    for (const auto& [id, score] : expected) EXPECT_NEAR(got.at(id), score, 0.05 * score) << id;
  }
}

}  // namespace
}  // namespace retina
