// Classifiers against torchvision: same weights and images, same logits, loss, gradients and loss
// curve.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "shared/comm/communicator.h"
#include "shared/model/classifier.h"
#include "tests/parity/golden.h"
#include "tests/parity/table.h"
#include "train/step/classification_loss.h"
#include "train/step/replica.h"

namespace retina {
namespace {

constexpr double kLabelSmoothing = 0.1;  // these three as make_golden.py
constexpr double kLearningRate = 5e-6;
constexpr std::int64_t kLabels[] = {1, 4};

Batch golden_batch() {
  Batch batch{.padded = {kGoldenPadded.width, kGoldenPadded.height}};
  const at::Tensor images = golden_images().contiguous();
  batch.images = std::make_shared<float[]>(static_cast<std::size_t>(images.numel()));
  std::copy_n(images.const_data_ptr<float>(), images.numel(), batch.images.get());
  for (const std::int64_t label : kLabels) batch.samples.push_back({.slot = {}, .labels = {label}});
  batch.part.real_image_count = 2;
  return batch;
}

class ClassifierParity : public testing::TestWithParam<const char*> {
 protected:
  bool row(const char* rung, double error, double bound) const {
    return holds({.rung = rung, .config = name_, .error = error, .bound = bound});
  }

  const std::string name_ = GetParam();
  const JsonFile golden_ = read_golden(name_ + ".json");
};

TEST_P(ClassifierParity, LogitsLossGradientsAndStatisticsAreTorchvisions) {
  // In f64: in f32 the gradients of two images through 50 batch norms depend on the CPU's kernels.
  const auto network = make_classifier(golden_config(name_));
  network->to(at::kDouble);
  set_golden_weights(*network);
  const at::Tensor logits = network->forward(golden_images().to(at::kDouble));  // [2, K]
  EXPECT_TRUE(
      row("logits, absolute", deviation(golden_.root().at("logits"), logits).largest, 1e-4));
  const ClassificationTargets targets = {.labels = torch::tensor({1, 4}, at::kLong),
                                         .counts = torch::ones({2}, at::kLong)};
  const ClassificationLoss loss = classification_loss(logits, targets, kLabelSmoothing, 2);
  const double golden_loss = golden_.root().at("cross_entropy").as_double();
  EXPECT_TRUE(row("cross-entropy, relative",
                  std::abs(loss.cross_entropy.item<double>() / golden_loss - 1), 1e-5));
  loss.cross_entropy.backward();
  const double floor = 1e-6 * golden_.root().at("gradient_norm").as_double();
  double gradients = 0, statistics = 0;
  for (const auto& [name, tensor, is_parameter] : network->tensors()) {
    if (is_parameter) {
      const JsonView golden = golden_.root().at("gradients").at(name.c_str());
      gradients = std::max(gradients, deviation(golden, tensor.grad(), floor).relative);
    } else {
      const JsonView golden = golden_.root().at("buffers").at(name.c_str());
      statistics = std::max(statistics, deviation(golden, tensor).relative);
    }
  }
  EXPECT_TRUE(row("every gradient by name, relative", gradients, 1e-3));
  EXPECT_TRUE(row("running statistics, relative", statistics, 1e-5));
}

TEST_P(ClassifierParity, TheLossCurveIsTorchvisions) {
  const auto alone = make_self_communicator();
  ReplicaOptions options;
  options.task.model = golden_config(name_);
  options.task.label_smoothing = kLabelSmoothing;
  Replica replica(options, *alone);
  set_golden_weights(replica.network());
  const Batch batch = golden_batch();
  const JsonView curve = golden_.root().at("curve");
  double worst = 0;
  for (std::size_t step = 0; step < curve.size(); ++step) {
    replica.backward(replica.loss(replica.forward(batch), batch), batch.part.is_last_micro_batch);
    replica.all_reduce();
    replica.update(kLearningRate, static_cast<std::int64_t>(step) + 1);
    const double loss = replica.take_metrics().of_task[0];
    worst = std::max(worst, std::abs(loss / curve.at(step).as_double() - 1));
  }
  EXPECT_TRUE(row("10 SGD steps, loss, relative", worst, 1e-4));
}

INSTANTIATE_TEST_SUITE_P(, ClassifierParity, testing::ValuesIn(kGoldenClassifiers),
                         [](const auto& case_info) { return std::string(case_info.param); });

}  // namespace
}  // namespace retina
