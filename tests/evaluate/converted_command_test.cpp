// retina-eval --model with a converted model: the same detections as the checkpoint's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/coco/results.h"
#include "shared/onnx/onnx_session.h"
#include "tests/convert/pth_writer.h"
#include "tests/evaluation/tiny_world.h"
#include "tests/support/child_process.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;

class ConvertedCommand : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TestFolder;
    write_tiny_shards(*folder_ / "shards", 6);
    write_tiny_checkpoint(*folder_ / "checkpoint.pt", tiny_network(4));
    convert_to("model.onnx");
  }
  void SetUp() override {
    if (!has_onnx_runtime()) GTEST_SKIP() << "built without OpenVINO";
  }
  static void convert_to(const std::string& name,
                         const std::vector<std::string>& more = {"--score-threshold", "0.008",
                                                                 "--max-detections", "25"}) {
    std::vector<std::string> all{"retina-convert",
                                 "--checkpoint",
                                 *folder_ / "checkpoint.pt",
                                 "--output",
                                 *folder_ / name,
                                 "--verification-images",
                                 "1"};
    all.insert(all.end(), more.begin(), more.end());
    const ProcessResult converted = run_process(all);
    ASSERT_EQ(converted.exit_code, 0) << converted.err;
  }
  static void TearDownTestSuite() { delete folder_; }

  static std::vector<std::string> command(const std::string& model, const std::string& output,
                                          const std::vector<std::string>& more) {
    std::vector<std::string> all{"retina-eval",
                                 "--model",
                                 *folder_ / model,
                                 "--data",
                                 *folder_ / "shards",
                                 "--output",
                                 *folder_ / output,
                                 "--device",
                                 "cpu",
                                 "--compute-threads",
                                 "1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  static TestFolder* folder_;
};
TestFolder* ConvertedCommand::folder_ = nullptr;

TEST_F(ConvertedCommand, FindsWhatTheCheckpointFindsAloneAndOnRanks) {
  const ProcessResult plain = run_process(
      command("checkpoint.pt", "plain", {"--score-threshold", "0.008", "--max-detections", "25"}));
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  const ProcessResult converted = run_process(command("model.onnx", "found", {}));
  ASSERT_EQ(converted.exit_code, 0) << converted.err;
  const auto expected = read_results(*folder_ / "plain/detections.json");
  const auto found = read_results(*folder_ / "found/detections.json");
  ASSERT_GT(expected.size(), 20U);
  ASSERT_EQ(found.size(), expected.size());
  // Scores that differ by rounding alone may swap places: each wants a partner, not its place.
  for (const Detection& want : expected) {
    bool matched = false;
    for (const Detection& got : found) {
      bool near = got.image_id == want.image_id && got.category_id == want.category_id &&
                  std::abs(got.score - want.score) < 1e-4;
      for (std::size_t i = 0; i < 4; ++i) near &= std::abs(got.bbox[i] - want.bbox[i]) < 1e-2;
      matched |= near;
    }
    EXPECT_TRUE(matched) << "image " << want.image_id << ", score " << want.score;
  }

  const ProcessResult ranks = run_process(under_mpirun(2, command("model.onnx", "ranks", {})));
  ASSERT_EQ(ranks.exit_code, 0) << ranks.err;
  EXPECT_EQ(read_file(*folder_ / "ranks/detections.json"),
            read_file(*folder_ / "found/detections.json"));
}

TEST_F(ConvertedCommand, TakesOtherThresholdsThanItWasConvertedWith) {
  const ProcessResult strict =
      run_process(command("model.onnx", "strict", {"--score-threshold", "0.9"}));
  ASSERT_EQ(strict.exit_code, 0) << strict.err;
  EXPECT_EQ(read_results(*folder_ / "strict/detections.json").size(), 0U);
  const std::string capped =
      "warning: AP counts the best 25 detections of an image above a score of ";
  EXPECT_THAT(strict.err, HasSubstr(capped + "0.9 (--max-detections, --score-threshold)"));
  const ProcessResult loose = run_process(command("model.onnx", "loose", {"--nms-threshold", "1"}));
  ASSERT_EQ(loose.exit_code, 0) << loose.err;
  EXPECT_THAT(loose.err, HasSubstr(capped + "0.008 ")) << "those that it was converted with";
  const ProcessResult tight = run_process(command("model.onnx", "tight", {"--nms-threshold", "0"}));
  ASSERT_EQ(tight.exit_code, 0) << tight.err;
  EXPECT_LT(read_results(*folder_ / "tight/detections.json").size(),
            read_results(*folder_ / "loose/detections.json").size());
}

TEST_F(ConvertedCommand, WithoutSuppressionOrForOneSizeSaysSo) {
  const auto made_with = [&](const std::string& name, const std::vector<std::string>& more) {
    convert_to(name, more);
    return run_process(command(name, name + "-out", {}));
  };
  const ProcessResult anchors = made_with("anchors.onnx", {"--no-postprocess"});
  EXPECT_EQ(anchors.exit_code, 78) << anchors.err;
  EXPECT_THAT(anchors.err, HasSubstr("gives every anchor's box"));
  const ProcessResult fixed = made_with("fixed.onnx", {"--onnx-static", "50x70"});
  EXPECT_EQ(fixed.exit_code, 78) << fixed.err;
  EXPECT_THAT(fixed.err, HasSubstr("takes images of 50x70 only ("));
}

}  // namespace
}  // namespace retina
