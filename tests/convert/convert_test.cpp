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

ErrorKind kind_of(const ConvertOptions& options, std::string* message = nullptr) {
  try {
    convert(options);
  } catch (const Error& error) {
    if (message != nullptr) *message = cat(error.what(), "; hint: ", error.hint());
    return error.kind();
  }
  ADD_FAILURE() << "no error";
  return ErrorKind::kInternal;
}

struct Architecture {
  std::string backbone;
  Norm norm;
  HeadNorm head_norm;
  bool p6_from_c5;
  double norm_eps;
};

// Names the test's entries.
void PrintTo(const Architecture& architecture, std::ostream* out) {
  *out << architecture.backbone << " " << word_of(kNorms, architecture.norm) << " "
       << word_of(kHeadNorms, architecture.head_norm) << " eps " << architecture.norm_eps;
}

class ConvertArchitectures : public testing::TestWithParam<Architecture> {};

// convert() ends with the verification: an error is a difference. The counts show that it compared.
TEST_P(ConvertArchitectures, TheWrittenModelEqualsTheCheckpoint) {
  const auto& [backbone, norm, head_norm, p6_from_c5, norm_eps] = GetParam();
  const TestFolder folder;
  ModelConfig config = small_config();
  config.backbone = backbone;
  config.norm = norm;
  config.head_norm = head_norm;
  config.p6_from_c5 = p6_from_c5;
  config.norm_eps = norm_eps;
  save_checkpoint(folder / "c.pt", random_checkpoint(config, 7));
  ConvertOptions options = options_in(folder);
  options.verification_image_count = 3;
  EXPECT_THAT(convert(options), verification("verification: 3 images"));
  EXPECT_EQ(read_inference_header(options.output).task, Task::kDetection);
}

INSTANTIATE_TEST_SUITE_P(
    , ConvertArchitectures,
    testing::Values(Architecture{"resnet18", Norm::kBatch, HeadNorm::kGroup, true, 1e-5},
                    Architecture{"resnet18", Norm::kFrozen, HeadNorm::kNone, false, 0.0},
                    Architecture{"resnet50", Norm::kFrozen, HeadNorm::kNone, false, 1e-5},
                    Architecture{"resnet50", Norm::kBatch, HeadNorm::kGroup, true, 1e-3},
                    Architecture{"resnext50_32x4d", Norm::kFrozen, HeadNorm::kNone, false, 1e-5},
                    Architecture{"wide_resnet50_2", Norm::kBatch, HeadNorm::kGroup, false, 1e-5},
                    Architecture{"regnet_x_800mf", Norm::kBatch, HeadNorm::kGroup, true, 1e-5},
                    Architecture{"mobilenet_v3_large", Norm::kBatch, HeadNorm::kGroup, true,
                                 1e-3}));

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

  std::string bytes = read_file(options.output);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file_atomically(folder / "bad.onnx", bytes);
  EXPECT_THROW(read_inference_header(folder / "bad.onnx"), Error);
}

TEST(Convert, TheSameCommandAgainChangesNothingAndOtherOptionsAreRefused) {
  const TestFolder folder;
  save_checkpoint(folder / "c.pt", random_checkpoint(small_config(), 1));
  ConvertOptions options = options_in(folder);
  convert(options);
  const std::string bytes = read_file(options.output);
  EXPECT_THAT(convert(options), HasSubstr("already exists"));
  EXPECT_EQ(read_file(options.output), bytes);

  std::string message;
  options.nms_threshold = 0.4;
  options.max_detections = 10;
  EXPECT_EQ(kind_of(options, &message), ErrorKind::kConfig);
  EXPECT_THAT(message, HasSubstr("nms-threshold (was 0.5, now 0.4)"));
  EXPECT_THAT(message, HasSubstr(", now 10)"));
  EXPECT_EQ(read_file(options.output), bytes);

  options.overwrite = true;
  convert(options);
  EXPECT_EQ(read_inference_header(options.output).max_detections, 10);
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
  std::string message;
  for (const bool overwrite : {false, true}) {
    options.overwrite = overwrite;
    EXPECT_EQ(kind_of(options, &message), ErrorKind::kCannotCreate);
    EXPECT_THAT(message, HasSubstr("not ours to replace"));
    EXPECT_EQ(read_file(options.output), "precious");
  }
  options.output = options.checkpoint;
  EXPECT_EQ(kind_of(options), ErrorKind::kConfig);
}

TEST(Convert, ACheckpointWithoutAClassIsBadData) {
  const TestFolder folder;
  Checkpoint checkpoint = random_checkpoint(small_config(), 1);
  checkpoint.categories.pop_back();
  save_checkpoint(folder / "c.pt", checkpoint);
  EXPECT_EQ(kind_of(options_in(folder)), ErrorKind::kData);
  checkpoint = random_checkpoint(small_config(), 1);
  checkpoint.model.pop_back();
  save_checkpoint(folder / "c.pt", checkpoint);
  EXPECT_EQ(kind_of(options_in(folder)), ErrorKind::kData);
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
