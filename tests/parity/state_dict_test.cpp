// Parameter names, shapes and order are torchvision's, so that checkpoints load into it strictly.
#include <gtest/gtest.h>

#include <sstream>

#include "shared/base/file.h"
#include "shared/model/classifier.h"
#include "shared/model/network_shape.h"
#include "tests/parity/golden.h"

namespace retina {
namespace {

ModelConfig coco_config(bool second_version) {
  ModelConfig config;
  config.class_count = 91;
  if (!second_version) {
    config.head_norm = HeadNorm::kNone;
    config.p6_from_c5 = false;
  }
  return config;
}

std::vector<std::string> lines_of(const Network& model) {
  std::vector<std::string> lines;
  for (const auto& [name, tensor] : state_of(model)) {
    std::string shape;
    for (const auto size : tensor.sizes()) {
      shape += (shape.empty() ? "" : "x") + std::to_string(size);
    }
    lines.push_back(name + " " + shape);
  }
  return lines;
}

std::vector<std::string> golden_lines(const std::string& name, bool with_counters) {
  std::istringstream text(read_file(golden_path(name)));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    if (with_counters || line.find("num_batches_tracked") == std::string::npos) {
      lines.push_back(line);
    }
  }
  return lines;
}

std::int64_t parameter_count(const Network& model) {
  std::int64_t count = 0;
  for (const ModelTensor& item : model.tensors())
    count += item.is_parameter ? item.tensor.numel() : 0;
  return count;
}

TEST(StateDict, FirstVersionWithTrainedNormHasTorchvisionsNamesShapesAndOrder) {
  EXPECT_EQ(lines_of(RetinaNet(coco_config(false))), golden_lines("state_v1.txt", true));
}

TEST(StateDict, FirstVersionWithFrozenNormHasNoBatchCountersAndThePublishedSize) {
  ModelConfig config = coco_config(false);
  config.norm = Norm::kFrozen;
  const RetinaNet model(config);
  EXPECT_EQ(lines_of(model), golden_lines("state_v1.txt", false));
  EXPECT_EQ(parameter_count(model), 34014999);
}

TEST(StateDict, SecondVersionHasTorchvisionsNamesShapesOrderAndSize) {
  const RetinaNet model(coco_config(true));
  EXPECT_EQ(lines_of(model), golden_lines("state_v2.txt", true));
  EXPECT_EQ(parameter_count(model), 38198935);
}

TEST(StateDict, ClassifierHasTorchvisionsNamesShapesAndOrder) {
  ModelConfig config;
  config.task = Task::kClassification;
  config.class_count = 91;
  EXPECT_EQ(lines_of(*make_classifier(config)), golden_lines("state_resnet50.txt", true));
}

// Of every backbone that retina-train knows.
TEST(StateDict, EveryBackboneHasTorchvisionsNamesShapesAndOrder) {
  for (const std::string& name : backbone_names()) {
    if (name.starts_with("resnet")) continue;
    ModelConfig config;
    config.task = Task::kClassification;
    config.backbone = name;
    config.class_count = 91;
    EXPECT_EQ(lines_of(*make_classifier(config)), golden_lines("state_" + name + ".txt", true))
        << name;
  }
}

// torchvision's parts in the size of --size nano: on MobileNetV3, whose body has other names in a
// detector than in a classifier.
TEST(StateDict, ASmallDetectorHasTorchvisionsNamesShapesAndOrder) {
  ModelConfig config = coco_config(true);
  config.backbone = "mobilenet_v3_large";
  config.p6_from_c5 = false;
  config.fpn_channels = 64;
  config.head_convs = 2;
  EXPECT_EQ(lines_of(RetinaNet(config)), golden_lines("state_nano.txt", true));
}

// 1,250,858 parameters, as Keras' summary() of examples/cifar10_cnn.py says.
TEST(StateDict, CifarCnnHasTheSizeOfKerasExample) {
  ModelConfig config;
  config.task = Task::kClassification;
  config.backbone = kCifarCnn;
  config.class_count = 10;
  config.min_side_px = config.max_side_px = 32;
  const auto network = make_classifier(config);
  EXPECT_EQ(parameter_count(*network), 1250858);
  EXPECT_EQ(
      lines_of(*network),
      (std::vector<std::string>{"conv1.weight 32x3x3x3", "conv1.bias 32", "conv2.weight 32x32x3x3",
                                "conv2.bias 32", "conv3.weight 64x32x3x3", "conv3.bias 64",
                                "conv4.weight 64x64x3x3", "conv4.bias 64", "fc1.weight 512x2304",
                                "fc1.bias 512", "fc2.weight 10x512", "fc2.bias 10"}));
}

}  // namespace
}  // namespace retina
