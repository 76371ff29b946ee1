// Converted classifiers. That they equal torchvision's is
// tests/oracle/classifier_equals_torchvision.py's to show.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "convert/onnx_weights.h"
#include "convert/verification/verification.h"
#include "convert/verification/verification_images.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/evaluation/predict/trained_network.h"
#include "shared/model/network_shape.h"
#include "shared/onnx/onnx_file.h"
#include "shared/onnx/onnx_model.h"
#include "shared/onnx/onnx_session.h"
#include "tests/convert/conversion.h"
#include "tests/convert/random_checkpoint.h"
#include "tests/support/refusal.h"

namespace retina {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kSpread = 8;  // of the scores

std::vector<Image> images_of_odd_sizes() {
  std::vector<Image> images;
  for (const auto& [width, height] : {std::pair{1, 1},
                                      {1, 300},
                                      {300, 1},
                                      {2, 3},
                                      {31, 400},
                                      {400, 31},
                                      {64, 73},
                                      {73, 64},
                                      {73, 73},
                                      {120, 90},
                                      {91, 121},
                                      {5000, 2}}) {
    images.emplace_back(width, height);
    auto& rgb = images.back().rgb;
    for (std::size_t i = 0; i < rgb.size(); ++i) {
      rgb[i] = static_cast<std::uint8_t>(i * i * 31 % 251);
    }
  }
  return images;
}

// Lying and upright, smaller and larger than the square, and where the image's middle lies on
// half a pixel.
TEST(ConvertedClassifier, EveryImagesSquareIsTheLoaders) {
  if (!has_onnx_runtime()) GTEST_SKIP() << "built without OpenVINO";
  for (const char* backbone : {"resnet18", "mobilenet_v3_large", "cifar-cnn"}) {
    for (const auto& [square, shorter] : {std::pair{64, 73}, {64, 64}, {33, 80}, {60, 73}}) {
      SCOPED_TRACE(cat(backbone, " ", square, " of ", shorter));
      ModelConfig config = small_classifier_config(backbone);
      config.min_side_px = square;
      config.max_side_px = shorter;
      const Checkpoint checkpoint = random_checkpoint(config, 3, kSpread);
      const TestFolder folder;
      save_checkpoint(folder / "c.pt", checkpoint);
      convert(options_in(folder));
      const auto model = trained_classifier(checkpoint, "c.pt");
      const ScoreMatch found = compare_models(ConvertedModel(folder / "m.onnx"), *model,
                                              {.images = images_of_odd_sizes()});
      EXPECT_EQ(found.unequal_count, 0) << found.first_unequal;
      EXPECT_EQ(found.image_count, 12);
    }
  }
}

TEST(ConvertedClassifier, GivesEachImagesProbabilitiesWhateverItsBatch) {
  if (!has_onnx_runtime()) GTEST_SKIP() << "built without OpenVINO";
  const ModelConfig config = small_classifier_config();
  const Checkpoint checkpoint = random_checkpoint(config, 11, kSpread);
  const InferenceHeader header{.task = Task::kClassification,
                               .config_json = checkpoint.config_json,
                               .categories = checkpoint.categories};
  ConvertedModel model(
      write_onnx_model(header, OnnxWeights(checkpoint.model, config.norm_eps), {}).bytes, header,
      "m.onnx");
  at::manual_seed(5);
  const at::Tensor images = at::randint(256, {3, 3, 90, 120}, at::kByte);
  const at::Tensor batch = model.probabilities(images);
  EXPECT_EQ(batch.sizes(), (at::IntArrayRef{3, 3}));
  EXPECT_EQ(batch.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::allclose(batch.sum(1), at::ones({3})));
  EXPECT_TRUE(at::allclose(batch, at::softmax(model.logits(images), 1), 0, 1e-6));
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(at::allclose(batch[i], model.probabilities(images.narrow(0, i, 1))[0], 0, 1e-5))
        << i;
  }
  EXPECT_FALSE(at::allclose(batch[0], model.probabilities(at::zeros_like(images))[0], 0, 1e-2))
      << "a model that always says the same proves nothing";
}

// A model whose weights are not the checkpoint's must not pass.
TEST(ClassifierVerification, FindsASmallChangeOfOneWeight) {
  if (!has_onnx_runtime()) GTEST_SKIP() << "built without OpenVINO";
  const TestFolder folder;
  Checkpoint checkpoint = random_checkpoint(small_classifier_config(), 1, kSpread);
  save_checkpoint(folder / "c.pt", checkpoint);
  convert(options_in(folder));
  for (auto& [name, tensor] : checkpoint.model) {
    if (name == "layer3.0.bn1.running_mean") tensor.add_(0.01);
  }
  const auto model = trained_classifier(checkpoint, "c.pt");
  const std::vector<Image> images = generated_images(2);
  const ScoreMatch found =
      compare_models(ConvertedModel(folder / "m.onnx"), *model, {.images = images});
  EXPECT_THROW(require_equal(found, "m.onnx"), Error);
}

TEST(ClassifierVerification, ThatFailsLeavesNoFile) {
  if (!has_onnx_runtime()) GTEST_SKIP() << "built without OpenVINO";
  const TestFolder folder;
  Checkpoint checkpoint = random_checkpoint(small_classifier_config(), 1);
  for (auto& [name, tensor] : checkpoint.model) {
    if (name == "fc.weight") tensor.detach().fill_(std::numeric_limits<float>::max());
  }
  save_checkpoint(folder / "c.pt", checkpoint);
  EXPECT_THAT(refusal(options_in(folder), ErrorKind::kAnswerNo),
              HasSubstr("the verification failed, nothing was written"));
  EXPECT_FALSE(path_exists(folder / "m.onnx"));
  EXPECT_FALSE(path_exists(folder / "m.onnx.tmp"));
}

TEST(ConvertedClassifier, ACheckpointThatIsNotFiniteIsBadDataByItsTensor) {
  const TestFolder folder;
  Checkpoint checkpoint = random_checkpoint(small_classifier_config(), 1);
  for (auto& [name, tensor] : checkpoint.model) {
    if (name == "fc.bias") tensor.detach()[1] = std::numeric_limits<float>::quiet_NaN();
  }
  save_checkpoint(folder / "c.pt", checkpoint);
  EXPECT_THAT(refusal(options_in(folder), ErrorKind::kData),
              HasSubstr("c.pt: tensor fc.bias has values that are not finite (got 1 of 3"));
}

TEST(InferenceHeader, IsTheFormatsText) {
  EXPECT_EQ(InferenceHeader{}.to_json(),
            R"({"format_version":3,"task":"detection","checkpoint":"0000000000000000",)"
            R"("onnx":{"weights":"f32","postprocess":true},"score_threshold":0.05,)"
            R"("nms_threshold":0.5,"max_detections":300,"config":"{}","categories":[]})");
  const std::string json = InferenceHeader{.task = Task::kClassification}.to_json();
  EXPECT_THAT(json, HasSubstr(R"("format_version":3,"task":"classification")"));
  EXPECT_THAT(json, Not(HasSubstr("threshold")));
}

}  // namespace
}  // namespace retina
