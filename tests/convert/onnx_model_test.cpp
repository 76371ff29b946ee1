// The forms of an inference model (inference_header.h): each conversion ends with the verification
// on its file.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convert/convert.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/evaluation/predict/converted_model.h"
#include "shared/onnx/onnx_file.h"
#include "shared/onnx/onnx_session.h"
#include "shared/shard/shard_set.h"
#include "tests/convert/random_checkpoint.h"
#include "tests/evaluation/tiny_world.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Tests run side by side; more threads than cores spin on each other.
const bool kOneThread = (at::set_num_threads(1), true);

class OnnxForms : public testing::Test {
 protected:
  // The options of a conversion of an untrained network.
  ConvertOptions options(const ModelConfig& config) {
    save_checkpoint(folder_ / "c.pt", random_checkpoint(config, 7));
    ConvertOptions options;
    options.checkpoint = folder_ / "c.pt";
    options.output = folder_ / "m.onnx";
    options.verification_image_count = 2;
    options.overwrite = true;
    return options;
  }
  // Converts; where models can be run, `words` are in the verification.
  static void expect_verification(const ConvertOptions& options, const std::string& words) {
    EXPECT_THAT(convert(options),
                HasSubstr(has_onnx_runtime() ? words : "verification: ONNX's own checker only"));
  }

  const TestFolder folder_;
};

ModelConfig version(int number, const std::string& backbone) {
  ModelConfig config = small_config();
  config.backbone = backbone;
  config.norm = number == 2 ? Norm::kBatch : Norm::kFrozen;
  config.head_norm = number == 2 ? HeadNorm::kGroup : HeadNorm::kNone;
  config.p6_from_c5 = number == 2;
  config.anchor_offset = number == 2 ? 0.5 : 0.0;
  return config;
}

TEST_F(OnnxForms, WithoutPostprocessGivesTheCheckpointsAnchors) {
  for (const auto& [number, backbone] : {std::pair{1, "resnet18"}, {2, "resnet50"}}) {
    ModelConfig config = version(number, backbone);
    config.anchors_per_location = number == 1 ? 1 : 9;
    ConvertOptions o = options(config);
    o.no_postprocess = true;
    expect_verification(o, "anchors equal");
    EXPECT_FALSE(read_inference_header(o.output).form.postprocess);
  }
}

TEST_F(OnnxForms, OfOneSizeTakesNoOther) {
  ConvertOptions o = options(version(1, "resnet18"));
  o.onnx_static = "96x128";
  expect_verification(o, "verification: 2 images");
  const InferenceHeader header = read_inference_header(o.output);
  EXPECT_EQ(header.form.image, (PixelSize{.height = 96, .width = 128}));
}

TEST_F(OnnxForms, WithRoundedWeightsTellsWhatThatChanges) {
  ConvertOptions o = options(version(2, "resnet18"));
  expect_verification(o, "verification: ");
  const std::size_t whole = file_size_bytes(o.output);
  o.onnx_weights = WeightType::kF16;
  expect_verification(o, "verification: with rounded weights");
  EXPECT_LT(file_size_bytes(o.output), whole * 6 / 10);
  EXPECT_EQ(read_inference_header(o.output).form.weights, WeightType::kF16);
}

// On MobileNetV3 with depthwise convolutions, squeeze and excitation and hardswish.
TEST_F(OnnxForms, Of8BitsTellsItsAccuracyBesideThatOfF32) {
  if (!has_onnx_runtime()) GTEST_SKIP() << "built without OpenVINO";
  write_tiny_shards(folder_ / "shards", 4);
  const Categories categories = ShardSet(folder_ / "shards").manifest().categories;
  for (const char* backbone : {"resnet18", "mobilenet_v3_large"}) {
    ModelConfig config = version(2, backbone);
    config.class_count = static_cast<int>(categories.size());
    ConvertOptions o = options(config);
    Checkpoint checkpoint = random_checkpoint(config, 7);
    checkpoint.categories = categories;
    save_checkpoint(folder_ / "c.pt", checkpoint);
    o.verification_data = folder_ / "shards";
    expect_verification(o, "verification: ");
    const std::size_t whole = file_size_bytes(o.output);
    o.onnx_weights = WeightType::kInt8;
    o.calibration_image_count = 3;
    EXPECT_THAT(convert(o),
                AllOf(HasSubstr("verification: AP on 3 images of"), HasSubstr("with int8")));
    EXPECT_LT(file_size_bytes(o.output), whole * 4 / 10) << backbone;
    EXPECT_NO_THROW(ConvertedModel(o.output));
  }
}

TEST_F(OnnxForms, OpenVinosOwnReasonIsToldWithoutItsSource) {
  if (!has_onnx_runtime()) GTEST_SKIP() << "built without OpenVINO";
  const std::string words =
      refusal_of(ErrorKind::kData, [] { open_onnx_session("\x08\x08 not a model", "m.onnx", 1); });
  EXPECT_THAT(words, testing::StartsWith("m.onnx: OpenVINO cannot load it ("));
  for (const char* internal : {"src/", ".cpp", "Exception from", "()"}) {
    EXPECT_THAT(words, testing::Not(HasSubstr(internal)));
  }
}

}  // namespace
}  // namespace retina
