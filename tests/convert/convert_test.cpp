#include "convert/convert.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "convert/onnx_weights.h"
#include "convert/verification/verification.h"
#include "convert/verification/verification_images.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/model/device.h"
#include "shared/onnx/onnx_file.h"
#include "shared/onnx/onnx_model.h"
#include "shared/onnx/onnx_session.h"
#include "tests/convert/conversion.h"
#include "tests/convert/random_checkpoint.h"
#include "tests/support/refusal.h"

namespace retina {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// What a file of `checkpoint` loads to in the trainer's program.
RetinaNet model_of(const ModelConfig& config, const Checkpoint& checkpoint) {
  RetinaNet model(config);
  load_state(model, checkpoint.model, "checkpoint");
  model.set_training(false);
  return model;
}

// What a conversion says of its verification.
testing::Matcher<std::string> verification(const std::string& words) {
  return HasSubstr(has_onnx_runtime() ? words : "verification: ONNX's own checker only");
}

ModelConfig detector(const char* backbone, bool is_v2, double norm_eps) {
  ModelConfig config = small_config();
  config.backbone = backbone;
  config.norm = is_v2 ? Norm::kBatch : Norm::kFrozen;
  config.head_norm = is_v2 ? HeadNorm::kGroup : HeadNorm::kNone;
  config.p6_from_c5 = is_v2;
  config.norm_eps = norm_eps;
  return config;
}

// convert() ends with the verification: an error is a difference. The counts show that it compared.
TEST(Convert, TheWrittenModelOfAnyArchitectureEqualsTheCheckpoint) {
  ModelConfig narrow = detector("wide_resnet50_2", true, 1e-5);
  narrow.p6_from_c5 = false;
  narrow.fpn_channels = 96;
  narrow.head_convs = 2;
  ModelConfig one_anchor = detector("resnet18", true, 1e-5);
  one_anchor.anchors_per_location = 1;
  one_anchor.anchor_offset = 0.5;
  one_anchor.fpn_channels = 64;
  one_anchor.head_convs = 1;
  for (const ModelConfig& config :
       {detector("resnet18", true, 1e-5), detector("resnet18", false, 0.0),
        detector("resnet50", false, 1e-5), detector("resnet50", true, 1e-3),
        detector("resnext50_32x4d", false, 1e-5), narrow, one_anchor,
        detector("regnet_x_800mf", true, 1e-5), detector("mobilenet_v3_large", true, 1e-3),
        small_classifier_config("resnet18"), small_classifier_config("resnet50"),
        small_classifier_config("resnext50_32x4d"), small_classifier_config("regnet_x_400mf"),
        small_classifier_config("mobilenet_v3_large"), small_classifier_config("cifar-cnn")}) {
    SCOPED_TRACE(config.to_json());
    const TestFolder folder;
    const bool detects = config.task == Task::kDetection;
    save_checkpoint(folder / "c.pt", random_checkpoint(config, 7, detects ? 1 : 8));
    ConvertOptions options = options_in(folder);
    options.verification_image_count = 3;
    EXPECT_THAT(convert(options),
                verification(detects ? "verification: 3 images"
                                     : "verification: 3 images, the same best class on 3"));
    EXPECT_EQ(read_inference_header(options.output).task, config.task);
  }
}

TEST(Convert, EveryInputShapeGivesThePostprocessedDetections) {
  if (!has_onnx_runtime()) GTEST_SKIP() << "built without OpenVINO";
  const ModelConfig config = small_config();
  const Checkpoint checkpoint = random_checkpoint(config, 3);
  const TestFolder folder;
  save_checkpoint(folder / "c.pt", checkpoint);
  convert(options_in(folder));
  RetinaNet model = model_of(config, checkpoint);
  std::vector<Image> images;
  for (const auto& [width, height] :
       {std::pair{1, 1}, {31, 400}, {400, 31}, {192, 128}, {65, 64}}) {
    images.emplace_back(width, height);
    auto& rgb = images.back().rgb;
    for (std::size_t i = 0; i < rgb.size(); ++i)
      rgb[i] = static_cast<std::uint8_t>(i * i * 31 % 251);
  }
  const MatchResult result =
      compare_models(ConvertedModel(folder / "m.onnx"), model, {.images = images});
  EXPECT_GE(result.paired_count, 20);
  EXPECT_EQ(result.unexplained_count, 0) << result.first_unexplained;
  EXPECT_LE(result.largest_box_px, kBoxTolerancePx);
  EXPECT_LE(result.largest_score, kScoreTolerance);
}

// One converted model for the tests of its interface.
class InferenceModel : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const ModelConfig config = small_config();
    const Checkpoint checkpoint = random_checkpoint(config, 11);
    header_ = {.config_json = checkpoint.config_json,
               .categories = checkpoint.categories,
               .max_detections = 5};
    bytes_ = write_onnx_model(header_, OnnxWeights(checkpoint.model, config.norm_eps), {}).bytes;
  }
  void SetUp() override {
    if (!has_onnx_runtime()) GTEST_SKIP() << "built without OpenVINO";
    model_.emplace(bytes_, header_, "m.onnx");
  }

  std::vector<at::Tensor> run(const at::Tensor& images) { return model_->detections(images); }

  static at::Tensor noise(std::int64_t count) {
    at::manual_seed(5);
    return at::randint(256, {count, 3, 90, 120}, at::kByte);
  }

  static inline InferenceHeader header_{};
  static inline std::string bytes_{};
  std::optional<ConvertedModel> model_{};
};

TEST_F(InferenceModel, OutputsArePaddedToMaxDetections) {
  const auto outputs = run(noise(2));
  ASSERT_EQ(outputs.size(), 4u);
  EXPECT_EQ(outputs[0].sizes(), (at::IntArrayRef{2, 5, 4}));
  EXPECT_EQ(outputs[1].sizes(), (at::IntArrayRef{2, 5}));
  EXPECT_EQ(outputs[2].sizes(), (at::IntArrayRef{2, 5}));
  EXPECT_EQ(outputs[3].sizes(), (at::IntArrayRef{2}));
  EXPECT_EQ(outputs[0].scalar_type(), at::kFloat);
  EXPECT_EQ(outputs[2].scalar_type(), at::kLong);
  EXPECT_EQ(outputs[3].scalar_type(), at::kLong);
  EXPECT_EQ(outputs[3][0].item<std::int64_t>(), 5);
  EXPECT_TRUE(at::equal(outputs[1], std::get<0>(outputs[1].sort(1, /*descending=*/true))));
}

TEST_F(InferenceModel, ABatchGivesEachImagesOwnDetections) {
  const at::Tensor images = noise(3);
  const auto batch = run(images);
  for (std::int64_t i = 0; i < 3; ++i) {
    const auto single = run(images.narrow(0, i, 1));
    EXPECT_TRUE(at::allclose(batch[0][i], single[0][0], 0, 1e-2)) << i;
    EXPECT_TRUE(at::allclose(batch[1][i], single[1][0], 0, 1e-4)) << i;
    EXPECT_TRUE(at::equal(batch[2][i], single[2][0])) << i;
  }
}

TEST_F(InferenceModel, AnImageWithoutDetectionsCountsZeroAndIsZero) {
  model_->set_thresholds({.score = 1.0});
  const auto outputs = run(noise(1));
  EXPECT_EQ(outputs[3][0].item<std::int64_t>(), 0);
  EXPECT_EQ(outputs[0].abs().sum().item<double>(), 0);
  EXPECT_EQ(outputs[1].abs().sum().item<double>(), 0);
}

TEST_F(InferenceModel, OtherThresholdsChangeWhatItFinds) {
  const at::Tensor images = noise(1);
  const double third = run(images)[1][0][2].item<double>();
  model_->set_thresholds({.score = third});
  EXPECT_EQ(run(images)[3][0].item<std::int64_t>(), 2);
  model_->set_thresholds({.score = 0.0, .nms = 0.0});
  const auto boxes = run(images)[0][0];
  const auto labels = run(images)[2][0];
  for (std::int64_t i = 0; i < 5; ++i) {
    for (std::int64_t k = 0; k < i; ++k) {
      if (!at::equal(labels[i], labels[k])) continue;
      const auto sides = at::minimum(boxes[i].narrow(0, 2, 2), boxes[k].narrow(0, 2, 2)) -
                         at::maximum(boxes[i].narrow(0, 0, 2), boxes[k].narrow(0, 0, 2));
      EXPECT_LE(sides.min().item<double>(), 1e-3) << i << " and " << k << " overlap";
    }
  }
}

TEST_F(InferenceModel, GivesTheBestWhereFewerAreAskedForAndNeverMoreThanItHas) {
  const at::Tensor images = noise(2);
  model_->set_thresholds({.max_detections = 3});
  EXPECT_EQ(run(images)[3].max().item<std::int64_t>(), 3);
  model_->set_thresholds({});
  EXPECT_EQ(run(images)[3].max().item<std::int64_t>(), 5);
  EXPECT_THAT(
      refusal_of(ErrorKind::kConfig, [&] { model_->set_thresholds({.max_detections = 6}); }),
      AllOf(HasSubstr("m.onnx: --max-detections 6"), HasSubstr("gives at most 5")));
}

TEST(Convert, TheFileIsSealedAndTellsWhatItWasMadeFrom) {
  const TestFolder folder;
  const Checkpoint checkpoint = random_checkpoint(small_config(), 1);
  const std::uint64_t hash = save_checkpoint(folder / "c.pt", checkpoint);
  ConvertOptions options = options_in(folder);
  options.max_detections = 20;
  convert(options);
  const InferenceHeader header = read_inference_header(options.output);
  EXPECT_EQ(header.checkpoint_hash, hash);
  EXPECT_EQ(header.max_detections, 20);
  EXPECT_EQ(header.config_json, checkpoint.config_json);
  EXPECT_EQ(header.categories.at(1).name, "class 1");
  // For everybody else: a class a line.
  EXPECT_THAT(read_file(options.output),
              AllOf(HasSubstr("class 0\nclass 1\nclass 2"), HasSubstr("1\n11\n21")));
}

TEST(Convert, TheVerificationIsInIeeeF32) {
  const TestFolder folder;
  save_checkpoint(folder / "c.pt", random_checkpoint(small_config(), 1));
  set_tf32(true);  // as LibTorch begins on GPUs
  convert(options_in(folder));
  EXPECT_FALSE(at::globalContext().allowTF32CuDNN(at::Float32Op::CONV));
  EXPECT_FALSE(at::globalContext().allowTF32CuBLAS());
}

TEST(Convert, AnotherFileAtTheOutputIsNotReplaced) {
  const TestFolder folder;
  save_checkpoint(folder / "c.pt", random_checkpoint(small_config(), 1));
  ConvertOptions options = options_in(folder);
  write_file_atomically(options.output, "precious");
  for (const bool overwrite : {false, true}) {
    options.overwrite = overwrite;
    EXPECT_THAT(refusal(options, ErrorKind::kCannotCreate), HasSubstr("not ours to replace"));
    EXPECT_EQ(read_file(options.output), "precious");
  }
  options.output = options.checkpoint;
  EXPECT_THAT(refusal(options, ErrorKind::kConfig), HasSubstr("is the checkpoint itself"));
}

TEST(Convert, ACheckpointWithoutAClassIsBadData) {
  const TestFolder folder;
  Checkpoint checkpoint = random_checkpoint(small_config(), 1);
  checkpoint.categories.pop_back();
  save_checkpoint(folder / "c.pt", checkpoint);
  EXPECT_NE(refusal(options_in(folder), ErrorKind::kData), "accepted");
  checkpoint = random_checkpoint(small_config(), 1);
  checkpoint.model.pop_back();
  save_checkpoint(folder / "c.pt", checkpoint);
  EXPECT_NE(refusal(options_in(folder), ErrorKind::kData), "accepted");
}

// A model whose weights are not the checkpoint's must not pass.
TEST(Verification, FindsASmallChangeOfOneWeight) {
  if (!has_onnx_runtime()) GTEST_SKIP() << "built without OpenVINO";
  const TestFolder folder;
  const ModelConfig config = small_config();
  Checkpoint checkpoint = random_checkpoint(config, 1);
  save_checkpoint(folder / "c.pt", checkpoint);
  convert(options_in(folder));
  for (auto& [name, tensor] : checkpoint.model) {
    if (name == "backbone.body.layer3.0.bn1.running_mean") tensor.add_(0.01);
  }
  RetinaNet model = model_of(config, checkpoint);
  const std::vector<Image> images = generated_images(2);
  const MatchResult result =
      compare_models(ConvertedModel(folder / "m.onnx"), model, {.images = images});
  EXPECT_THROW(require_equal(result, "m.onnx"), Error);
}

TEST(Verification, ComparesDetectionsEvenWhereEveryScoreIsBelowTheThreshold) {
  const TestFolder folder;
  Checkpoint checkpoint = random_checkpoint(small_config(), 1, /*head_spread=*/0.1);
  for (auto& [name, tensor] : checkpoint.model) {
    if (name.ends_with("cls_logits.bias")) tensor.detach().fill_(-5);
  }
  save_checkpoint(folder / "c.pt", checkpoint);
  EXPECT_THAT(convert(options_in(folder)), verification("detections equal"));
  if (!has_onnx_runtime()) return;
  const auto found =
      ConvertedModel(folder / "m.onnx").detections(at::zeros({1, 3, 90, 120}, at::kByte));
  EXPECT_EQ(found[3].item<std::int64_t>(), 0) << "a score above the threshold";
}

TEST(Convert, FoldingEqualsConvolutionThenNorm) {
  const Checkpoint checkpoint = random_checkpoint(small_config(), 2);
  const std::string block = "backbone.body.layer2.0.";
  const LayerShape shape = {128, 64, 3, 3};
  LayerArrays folded =
      OnnxWeights(checkpoint.model, 1e-5).folded(block + "conv1", block + "bn1", shape);
  const auto f64 = [&](const std::string& name) {
    const auto found = std::find_if(checkpoint.model.begin(), checkpoint.model.end(),
                                    [&](const auto& entry) { return entry.name == block + name; });
    return found->tensor.to(at::kDouble);
  };
  const auto folded_f64 = [](Array& array) {
    return at::from_blob(array.numbers.data(), array.shape, at::kFloat).to(at::kDouble);
  };
  at::manual_seed(1);
  const at::Tensor input = at::randn({1, 64, 9, 9}).to(at::kDouble);
  const at::Tensor want =
      at::batch_norm(at::conv2d(input, f64("conv1.weight")), f64("bn1.weight"), f64("bn1.bias"),
                     f64("bn1.running_mean"), f64("bn1.running_var"), false, 0.1, 1e-5, false);
  const at::Tensor got = at::conv2d(input, folded_f64(folded.weight), folded_f64(folded.bias));
  EXPECT_TRUE(at::allclose(got, want, 1e-6, 1e-6));
}

}  // namespace
}  // namespace retina
