// Parameter names, shapes and order are torchvision's, so that checkpoints load into it strictly.
#include <gtest/gtest.h>

#include <sstream>

#include "shared/base/file.h"
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

std::vector<std::string> lines_of(const RetinaNet& model) {
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

std::int64_t parameter_count(const RetinaNet& model) {
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

}  // namespace
}  // namespace retina
