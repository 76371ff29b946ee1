// The backbones that are no ResNets against torchvision, as classifiers in evaluation mode, where
// no draw of dropout matters: same weights and images, same logits, loss and gradients.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "shared/model/classifier.h"
#include "tests/parity/golden.h"
#include "tests/parity/table.h"

namespace retina {
namespace {

class BackboneParity : public testing::TestWithParam<const char*> {};

TEST_P(BackboneParity, LogitsLossAndGradientsAreTorchvisions) {
  const std::string name = GetParam();
  const JsonFile golden = read_golden(name + ".json");
  const auto row = [&](const char* rung, double error, double bound) {
    return holds({.rung = rung, .config = name, .error = error, .bound = bound});
  };
  ModelConfig config;
  config.task = Task::kClassification;
  config.backbone = name;
  config.class_count = 5;
  const auto network = make_classifier(config);
  network->to(at::kDouble);
  network->set_training(false);
  set_golden_weights(*network);
  const at::Tensor logits = network->forward(golden_images().to(at::kDouble));  // [2, K]
  EXPECT_TRUE(
      row("logits, relative", deviation(golden.root().at("logits"), logits).relative, 1e-6));
  const at::Tensor loss = torch::nll_loss(logits.log_softmax(1), torch::tensor({1, 4}, at::kLong));
  const double golden_loss = golden.root().at("cross_entropy").as_double();
  EXPECT_TRUE(
      row("cross-entropy, relative", std::abs(loss.item<double>() / golden_loss - 1), 1e-6));
  loss.backward();
  const double floor = 1e-6 * golden.root().at("gradient_norm").as_double();
  double gradients = 0;
  for (const auto& [key, tensor, is_parameter] : network->tensors()) {
    if (!is_parameter) continue;
    const JsonView wanted = golden.root().at("gradients").at(key.c_str());
    gradients = std::max(gradients, deviation(wanted, tensor.grad(), floor).relative);
  }
  EXPECT_TRUE(row("every gradient by name, relative", gradients, 1e-6));
}

INSTANTIATE_TEST_SUITE_P(, BackboneParity, testing::ValuesIn(kGoldenBackbones),
                         [](const auto& case_info) { return std::string(case_info.param); });

}  // namespace
}  // namespace retina
