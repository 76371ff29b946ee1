#include "shared/evaluation/predict/classify.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <span>

#include "convert/convert.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/data/evaluation_plan.h"
#include "shared/data/sample_source.h"
#include "shared/evaluation/predict/converted_model.h"
#include "shared/evaluation/predict/trained_network.h"
#include "shared/onnx/onnx_session.h"
#include "tests/evaluation/tiny_world.h"
#include "tests/support/ranks/thread_world.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;

constexpr int kConvertedCount = 11;

void convert_to(const std::string& checkpoint, const std::string& output) {
  ConvertOptions options;
  options.checkpoint = checkpoint;
  options.output = output;
  options.verification_image_count = 1;
  convert(options);
}

class ConvertedClassify : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    at::set_num_threads(1);  // waiting threads cost more than they give on so small a network
    folder_ = new TestFolder;
    write_tiny_shards(*folder_ / "shards", kConvertedCount, Task::kClassification);
    write_tiny_checkpoint(*folder_ / "c.pt", *tiny_classifier(5));
    convert_to(*folder_ / "c.pt", *folder_ / "m.onnx");
    shards_ = new ShardSet(*folder_ / "shards");
  }
  void SetUp() override {
    if (!has_onnx_runtime()) GTEST_SKIP() << "built without OpenVINO";
  }
  static void TearDownTestSuite() {
    delete shards_;
    delete folder_;
  }

  static ConvertedModel model() { return ConvertedModel(*folder_ / "m.onnx"); }

  static std::vector<ClassOutcome> run(const DetectOptions& options) {
    const auto self = make_self_communicator();
    ConvertedModel opened = model();
    return classify(opened, *shards_, *self, options);
  }

  // The network itself on what the loader makes of the records.
  static std::vector<ClassOutcome> by_hand() {
    const at::NoGradGuard no_gradients;
    const auto network = trained_classifier(load_checkpoint(*folder_ / "c.pt"), *folder_ / "c.pt");
    const ModelConfig& config = network->config();
    const ShardSource source(*shards_, config.normalisation());
    std::vector<ClassOutcome> outcomes;
    JpegDecoder decoder;
    for (const BatchRequest& request : plan_evaluation(source.index(), {.frame = config.frame()})) {
      const at::Tensor pixels = at::empty({1, 3, config.min_side_px, config.min_side_px});
      const Sample sample = source.load(request, 0, decoder, pixels.mutable_data_ptr<float>());
      const at::Tensor logits = network->forward(pixels).contiguous();
      outcomes.push_back(class_outcome(
          {.image_id = sample.image_id,
           .label = static_cast<int>(sample.labels.at(0)),
           .scores = {logits.const_data_ptr<float>(), static_cast<std::size_t>(logits.numel())}}));
    }
    std::sort(outcomes.begin(), outcomes.end(),
              [](const auto& a, const auto& b) { return a.image_id < b.image_id; });
    return outcomes;
  }

  static TestFolder* folder_;
  static ShardSet* shards_;
};
TestFolder* ConvertedClassify::folder_ = nullptr;
ShardSet* ConvertedClassify::shards_ = nullptr;

void expect_same(const std::vector<ClassOutcome>& got, const std::vector<ClassOutcome>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    SCOPED_TRACE(want[i].image_id);
    EXPECT_EQ(got[i].image_id, want[i].image_id);
    EXPECT_EQ(got[i].label, want[i].label);
    EXPECT_EQ(got[i].rank, want[i].rank);
    EXPECT_EQ(got[i].best, want[i].best);
    EXPECT_NEAR(got[i].loss, want[i].loss, 1e-4);
    for (std::size_t k = 0; k < kBestLabels; ++k) {
      EXPECT_NEAR(got[i].probabilities[k], want[i].probabilities[k], 1e-5);
    }
  }
}

TEST_F(ConvertedClassify, GivesTheOutcomesOfTheNetworkFedByTheLoader) {
  const std::vector<ClassOutcome> want = by_hand();
  ASSERT_EQ(want.size(), static_cast<std::size_t>(kConvertedCount));
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(want[i].image_id, 1000 + static_cast<std::int64_t>(i));
    EXPECT_EQ(want[i].label, static_cast<int>(i % 3));
  }
  expect_same(run({}), want);
  expect_same(run({.images_per_batch = 4}), want);
}

TEST_F(ConvertedClassify, RanksShareTheImagesAndTheFirstGetsAllOutcomes) {
  const auto want = run({});
  ThreadWorld world({.ring = {.ranks = 3}});
  std::vector<ClassOutcome> all;
  std::atomic<std::int64_t> shared_count = 0;
  const auto ends = world.run([&](ThreadRank& rank) {
    ConvertedModel own = model();
    std::int64_t share = 0;
    std::vector<ClassOutcome> found =
        classify(own, *shards_, rank,
                 {.on_progress = [&](std::int64_t done, std::int64_t) { share = done; }});
    EXPECT_GE(share, 3);
    shared_count += share;
    if (rank.is_root()) {
      all = std::move(found);
    } else {
      EXPECT_TRUE(found.empty());
    }
  });
  for (const RankOutcome& end : ends) EXPECT_EQ(end.message, "");
  EXPECT_EQ(shared_count, kConvertedCount);
  expect_same(all, want);
}

TEST_F(ConvertedClassify, ModelsAndSetsOfTheOtherTaskAreRefusedByName) {
  const auto self = make_self_communicator();
  write_tiny_shards(*folder_ / "boxes", 2);
  const ShardSet boxes(*folder_ / "boxes");
  ConvertedModel classifier = model();
  EXPECT_THAT(refusal_of(ErrorKind::kConfig, [&] { classify(classifier, boxes, *self, {}); }),
              HasSubstr("boxes: is a detection set (want classification)"));
  EXPECT_THAT(
      refusal_of(
          ErrorKind::kConfig,
          [&] {
            detect(classifier, {ShardSource(*shards_), shards_->manifest().categories, *self}, {});
          }),
      HasSubstr("m.onnx: is a model for classification (want detection)"));
  EXPECT_THAT(
      refusal_of(
          ErrorKind::kConfig,
          [&] { classifier.set_thresholds({.score = 0.1, .nms = {}, .max_detections = {}}); }),
      HasSubstr("score_threshold"));

  write_tiny_checkpoint(*folder_ / "d.pt", tiny_network(4));
  convert_to(*folder_ / "d.pt", *folder_ / "detector.onnx");
  ConvertedModel detector(*folder_ / "detector.onnx");
  EXPECT_THAT(refusal_of(ErrorKind::kConfig, [&] { classify(detector, *shards_, *self, {}); }),
              HasSubstr("detector.onnx: is a model for detection (want classification)"));
}

TEST_F(ConvertedClassify, CheckpointsOfTheOtherTaskAreRefusedByName) {
  write_tiny_checkpoint(*folder_ / "d.pt", tiny_network(4));
  const Checkpoint detector = load_checkpoint(*folder_ / "d.pt");
  const Checkpoint classifier = load_checkpoint(*folder_ / "c.pt");
  EXPECT_THAT(refusal_of(ErrorKind::kConfig, [&] { trained_network(classifier, "c.pt"); }),
              HasSubstr("c.pt: is a model for classification (want detection)"));
  EXPECT_THAT(refusal_of(ErrorKind::kConfig, [&] { trained_classifier(detector, "d.pt"); }),
              HasSubstr("d.pt: is a model for detection (want classification)"));
}

}  // namespace
}  // namespace retina
