#include "shared/model/classifier.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/model/network_shape.h"

namespace retina {
namespace {

ModelConfig classifier_config(const std::string& backbone, int side_px = 32) {
  ModelConfig config;
  config.task = Task::kClassification;
  config.backbone = backbone;
  config.class_count = 4;
  config.min_side_px = config.max_side_px = side_px;
  return config;
}

at::Tensor images(std::int64_t count, std::int64_t side) {
  torch::manual_seed(3);
  return torch::randn({count, 3, side, side});
}

DropoutPlace place(std::int64_t step, std::vector<std::int64_t> slots) {
  return {.seed = 1, .step = step, .slots = torch::tensor(slots, at::kLong)};
}

at::Tensor tensor_of(const Network& network, const std::string& wanted) {
  for (const auto& [name, tensor] : state_of(network)) {
    if (name == wanted) return tensor.detach().to(at::kDouble);
  }
  ADD_FAILURE() << wanted;
  return {};
}

TEST(Classifier, GivesLogitsOfEachImageWhateverTheSizeOfABackbonesInput) {
  for (const char* backbone : {"resnet18", "regnet_x_400mf", "mobilenet_v3_large"}) {
    const auto network = make_classifier(classifier_config(backbone));
    initialise(*network, 1);
    network->set_training(false);
    const torch::NoGradGuard no_grad;
    EXPECT_EQ(network->forward(images(2, 32)).sizes(), (std::vector<std::int64_t>{2, 4}));
    EXPECT_EQ(network->forward(images(1, 75)).sizes(), (std::vector<std::int64_t>{1, 4}));
    EXPECT_EQ(network->forward(images(0, 32)).sizes(), (std::vector<std::int64_t>{0, 4}));
  }
}

TEST(Classifier, OfKerasDropsWhileItTrainsAlone) {
  const auto network = make_classifier(classifier_config(kCifarCnn));
  initialise(*network, 1);
  const torch::NoGradGuard no_grad;
  const at::Tensor two = images(2, 32);
  network->set_training(false);
  const at::Tensor plain = network->forward(two);
  EXPECT_TRUE(plain.equal(network->forward(two)));
  network->set_training(true);
  const at::Tensor first = network->forward(two, place(1, {0, 1}));
  EXPECT_FALSE(first.equal(plain));
  EXPECT_TRUE(first.equal(network->forward(two, place(1, {0, 1}))));
  EXPECT_FALSE(first.equal(network->forward(two, place(2, {0, 1})))) << "another step";
  EXPECT_FALSE(first.equal(network->forward(two, place(1, {2, 3})))) << "other slots";
}

TEST(Classifier, WhatIsDroppedOfAnImageDoesNotDependOnTheOthersOfItsPass) {
  const auto network = make_classifier(classifier_config(kCifarCnn));
  initialise(*network, 1);
  network->to(at::kDouble);
  const torch::NoGradGuard no_grad;
  const at::Tensor three = images(3, 32).to(at::kDouble);
  const at::Tensor together = network->forward(three, place(7, {4, 5, 6}));
  const at::Tensor alone = network->forward(three.narrow(0, 1, 1), place(7, {5}));
  EXPECT_LT((together[1] - alone[0]).abs().max().item<double>(), 1e-13);
}

TEST(Classifier, OfKerasStartsGlorotUniformWithoutBiases) {
  const auto network = make_classifier(classifier_config(kCifarCnn));
  initialise(*network, 5);
  const at::Tensor conv = tensor_of(*network, "conv3.weight");  // [64, 32, 3, 3]
  const double bound = std::sqrt(6.0 / ((64 + 32) * 9));
  EXPECT_LE(conv.abs().max().item<double>(), bound);
  EXPECT_GT(conv.abs().max().item<double>(), 0.99 * bound);
  const at::Tensor dense = tensor_of(*network, "fc1.weight");  // [512, 2304]
  EXPECT_NEAR(dense.std().item<double>() / (std::sqrt(6.0 / (512 + 2304)) / std::sqrt(3.0)), 1,
              0.01);
  EXPECT_EQ(tensor_of(*network, "fc1.bias").abs().sum().item<double>(), 0);
}

TEST(Classifier, LastLayerOfAResNetStartsAsTorchsLinear) {
  const auto network = make_classifier(classifier_config("resnet18"));
  initialise(*network, 5);
  const double bound = 1 / std::sqrt(512.0);
  for (const char* name : {"fc.weight", "fc.bias"}) {
    const double largest = tensor_of(*network, name).abs().max().item<double>();
    EXPECT_LE(largest, bound) << name;
    EXPECT_GT(largest, 0.3 * bound) << name;
  }
}

TEST(Classifier, LastLayersOfTheOthersStartSmall) {
  for (const auto& [backbone, layer] : {std::pair{"regnet_x_400mf", "fc"},
                                        {"mobilenet_v3_large", "classifier.0"},
                                        {"mobilenet_v3_large", "classifier.3"}}) {
    const auto network = make_classifier(classifier_config(backbone));
    initialise(*network, 5);
    EXPECT_NEAR(tensor_of(*network, cat(layer, ".weight")).std().item<double>(), 0.01, 0.0005);
    EXPECT_EQ(tensor_of(*network, cat(layer, ".bias")).abs().max().item<double>(), 0);
  }
}

TEST(Classifier, DenseLayersOfMobileNetLearnWhateverIsFrozenBelow) {
  const auto network = make_classifier(classifier_config("mobilenet_v3_large"));
  freeze_backbone(*network, 0);
  for (const auto& [name, tensor, is_parameter] : network->tensors()) {
    if (!is_parameter) continue;
    EXPECT_EQ(tensor.requires_grad(), name.starts_with("classifier.")) << name;
  }
}

// In training alone, and by the image's place, whoever computes it.
TEST(Classifier, MobileNetDropsOutByTheImagesPlace) {
  ModelConfig config = classifier_config("mobilenet_v3_large");
  config.norm = Norm::kFrozen;
  const auto network = make_classifier(config);
  initialise(*network, 5);
  const torch::NoGradGuard no_gradient;
  const at::Tensor two = images(2, 64);
  const at::Tensor first = network->forward(two, place(1, {0, 1}));
  EXPECT_TRUE(network->forward(two, place(1, {0, 1})).equal(first));
  EXPECT_FALSE(network->forward(two, place(2, {0, 1})).equal(first));
  network->set_training(false);
  EXPECT_TRUE(
      network->forward(two, place(1, {0, 1})).equal(network->forward(two, place(2, {2, 3}))));
}

TEST(Classifier, LastLayerLearnsWhateverIsFrozenBelow) {
  const auto network = make_classifier(classifier_config("resnet18"));
  freeze_backbone(*network, 0);
  for (const auto& [name, tensor, is_parameter] : network->tensors()) {
    if (!is_parameter) continue;
    EXPECT_EQ(tensor.requires_grad(), name.starts_with("fc.")) << name;
  }
}

TEST(Classifier, ConfigurationGoesThroughJsonWithoutWhatDetectorsHave) {
  const ModelConfig config = classifier_config(kCifarCnn);
  const JsonFile json = JsonFile::parse(config.to_json(), "config");
  EXPECT_EQ(ModelConfig::from_json(json.root()), config);
  EXPECT_FALSE(json.root().has("anchor_sizes"));
}

TEST(Classifier, ConfigurationRefusesWhatFitsNoNetwork) {
  EXPECT_THROW(classifier_config(kCifarCnn, 9).validate(), Error) << "nothing is left of 9 px";
  classifier_config(kCifarCnn, 10).validate();
  ModelConfig detector = classifier_config(kCifarCnn);
  detector.task = Task::kDetection;
  EXPECT_THROW(detector.validate(), Error);
}

}  // namespace
}  // namespace retina
