// The whole network against torchvision, both versions on two backbones: same weights and images,
// same outputs, losses, gradients, detections and AP. The bounds are the project's promise
// (docs/measurements.md, "Exactness").
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <limits>
#include <set>

#include "shared/base/cat.h"
#include "shared/evaluation/score/metrics.h"
#include "shared/model/postprocess.h"
#include "tests/parity/golden.h"
#include "tests/parity/table.h"

namespace retina {
namespace {

NamedTensors parameters_of(const RetinaNet& model) {
  NamedTensors parameters;
  for (const auto& [name, tensor, is_parameter] : model.tensors()) {
    if (is_parameter) parameters.push_back({name, tensor});
  }
  return parameters;
}

double relative_error(const at::Tensor& value, const JsonView& golden) {
  return std::abs(value.item<double>() / golden.as_double() - 1);
}

class ModelParity : public testing::TestWithParam<const char*> {
 protected:
  RetinaNet golden_model() const {
    RetinaNet model(golden_config(name_));
    set_golden_weights(model);
    return model;
  }
  // Adds a row for this model.
  bool row(const char* rung, double error, double bound) const {
    return holds({.rung = rung, .config = name_, .error = error, .bound = bound});
  }
  void check_outputs(const HeadOutputs& outputs, const char* layout) const;
  void check_gradients(const RetinaNet& model) const;
  void check_whole_gradient(const RetinaNet& model) const;
  void check_statistics(const RetinaNet& model) const;
  void check_detections(const std::vector<ImageDetections>& found) const;
  void check_ap(const std::vector<ImageDetections>& found) const;

  const std::string name_ = GetParam();
  const JsonFile golden_ = read_golden(name_ + ".json");
};

void ModelParity::check_outputs(const HeadOutputs& outputs, const char* layout) const {
  const Deviation logits = deviation(golden_.root().at("logits"), all_levels(outputs.logits));
  const Deviation deltas = deviation(golden_.root().at("deltas"), all_levels(outputs.deltas));
  EXPECT_TRUE(row(cat("logits, absolute", layout).c_str(), logits.largest, 1e-4));
  EXPECT_TRUE(row(cat("deltas, absolute", layout).c_str(), deltas.largest, 1e-4));
  // Every element, by projection, not only those sampled.
  EXPECT_LE(logits.relative, 1e-4);
  EXPECT_LE(deltas.relative, 1e-4);
}

void ModelParity::check_gradients(const RetinaNet& model) const {
  const JsonView gradients = golden_.root().at("gradients");
  const NamedTensors parameters = parameters_of(model);
  ASSERT_EQ(parameters.size(), gradients.raw().MemberCount());
  // A bias that only moves what a batch norm centres again has no gradient but rounding.
  const double floor = 1e-6 * golden_.root().at("gradient_norm").as_double();
  double worst = 0;
  for (const auto& [name, parameter] : parameters) {
    const at::Tensor& gradient = parameter.grad();
    ASSERT_TRUE(gradient.defined()) << name;
    const double error = deviation(gradients.at(name.c_str()), gradient, floor).relative;
    EXPECT_LE(error, 1e-6) << name;
    worst = std::max(worst, error);
  }
  EXPECT_TRUE(row("every gradient in f64 by name, relative", worst, 1e-6));
}

// The errors of all parameters' gradients together, in units of the whole gradient.
void ModelParity::check_whole_gradient(const RetinaNet& model) const {
  const JsonView gradients = golden_.root().at("gradients");
  const double norm = golden_.root().at("gradient_norm").as_double();
  double squares = 0;
  for (const auto& [name, parameter] : parameters_of(model)) {
    const double error = deviation(gradients.at(name.c_str()), parameter.grad(), norm).relative;
    squares += error * error;
  }
  EXPECT_TRUE(row("whole gradient in f32, relative", std::sqrt(squares), 1e-4));
}

void ModelParity::check_statistics(const RetinaNet& model) const {
  if (model.config().frozen_norm()) return;
  double worst = 0;
  for (const auto& [name, tensor, is_parameter] : model.tensors()) {
    if (is_parameter) continue;
    const JsonView golden = golden_.root().at("buffers").at(name.c_str());
    worst = std::max(worst, deviation(golden, tensor).relative);
  }
  EXPECT_TRUE(row("running statistics, relative", worst, 1e-5));
}

// How far the worst golden detection is from its partner: same label, scores within 1e-4, nearest
// box; each partner once. Scores closer than rounding may swap places, so places are not compared.
struct DetectionError {
  double box_px = 0, score = 0;
};
DetectionError detection_error(const ImageDetections& found, const JsonView& golden) {
  const at::Tensor boxes = found.boxes.to(at::kDouble), scores = found.scores.to(at::kDouble);
  const at::Tensor golden_boxes = table(golden.at("boxes"));
  const auto score = scores.accessor<double, 1>();
  const auto label = found.labels.accessor<std::int64_t, 1>();
  std::set<std::int64_t> taken;
  DetectionError worst;
  for (std::int64_t g = 0; g < golden_boxes.size(0); ++g) {
    const auto place = static_cast<std::size_t>(g);
    const double golden_score = golden.at("scores").at(place).as_double();
    const at::Tensor distances = std::get<0>((boxes - golden_boxes[g]).abs().max(1));
    std::int64_t partner = -1;
    double nearest = std::numeric_limits<double>::infinity();
    for (std::int64_t d = 0; d < boxes.size(0); ++d) {
      const double distance = distances.const_data_ptr<double>()[d];
      if (label[d] != golden.at("labels").at(place).as_int() || taken.contains(d)) continue;
      if (std::abs(score[d] - golden_score) > 1e-4 || distance >= nearest) continue;
      nearest = distance;
      partner = d;
    }
    worst.box_px = std::max(worst.box_px, nearest);
    if (partner < 0) continue;
    taken.insert(partner);
    worst.score = std::max(worst.score, std::abs(score[partner] - golden_score));
  }
  return worst;
}

void ModelParity::check_detections(const std::vector<ImageDetections>& found) const {
  const JsonView golden = golden_.root().at("detections");
  ASSERT_EQ(found.size(), golden.size());
  DetectionError worst;
  for (std::size_t image = 0; image < found.size(); ++image) {
    const std::size_t count = golden.at(image).at("scores").size();
    EXPECT_GT(count, 20U);
    EXPECT_EQ(found[image].scores.size(0), static_cast<std::int64_t>(count));
    const DetectionError error = detection_error(found[image], golden.at(image));
    worst = {.box_px = std::max(worst.box_px, error.box_px),
             .score = std::max(worst.score, error.score)};
  }
  EXPECT_TRUE(row("detections after NMS, boxes in px", worst.box_px, 1e-2));
  EXPECT_TRUE(row("detections after NMS, scores", worst.score, 1e-4));
}

void ModelParity::check_ap(const std::vector<ImageDetections>& found) const {
  Instances truth;
  for (std::size_t image = 0; image < found.size(); ++image) {
    truth.images.push_back({.id = static_cast<std::int64_t>(image)});
  }
  for (int label = 0; label < 5; ++label) truth.categories.push_back({.id = label + 1});
  const JsonView objects = golden_.root().at("ap").at("truth");
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const JsonView one = objects.at(i);
    const auto side = [&](std::size_t place) { return one.at(place).as_double(); };
    truth.annotations.push_back({.id = static_cast<std::int64_t>(i) + 1,
                                 .image_id = one.at(std::size_t{0}).as_int(),
                                 .category_id = one.at(1).as_int(),
                                 .bbox = {side(2), side(3), side(4), side(5)},
                                 .area = side(4) * side(5)});
  }
  std::vector<Detection> results;
  for (std::size_t image = 0; image < found.size(); ++image) {
    const at::Tensor boxes = found[image].boxes.to(at::kDouble);
    const auto box = boxes.accessor<double, 2>();
    for (std::int64_t i = 0; i < boxes.size(0); ++i) {
      results.push_back(
          {.image_id = static_cast<std::int64_t>(image),
           .category_id = found[image].labels[i].item<std::int64_t>() + 1,
           .bbox = {box[i][0], box[i][1], box[i][2] - box[i][0], box[i][3] - box[i][1]},
           .score = found[image].scores[i].item<double>()});
    }
  }
  const CocoMetrics metrics = evaluate_detections(truth, results);
  double worst = 0;
  for (std::size_t i = 0; i < kCocoStatCount; ++i) {
    const double golden = golden_.root().at("ap").at("stats").at(i).as_double();
    worst = std::max(worst, std::abs(metrics.stats[i] - golden));
  }
  EXPECT_GT(metrics.stats[kAp], 0.05);
  EXPECT_TRUE(row("AP: the 12 numbers, absolute", worst, 1e-3));
}

TEST_P(ModelParity, OutputsLossesGradientsDetectionsAndApAreTorchvisions) {
  RetinaNet model = golden_model();
  const HeadOutputs outputs = model.forward(golden_images());
  check_outputs(outputs, "");
  const at::Tensor anchors =
      anchors_for(model.config(), kGoldenPadded, outputs.deltas[0].options());
  const DetectionLoss loss = detection_loss(outputs, anchors, batch_of(golden_targets()),
                                            golden_loss_options(name_), /*images_global=*/2);
  const JsonView root = golden_.root();
  EXPECT_TRUE(row("classification loss, relative",
                  relative_error(loss.classification, root.at("classification")), 1e-5));
  EXPECT_TRUE(row("box loss, relative",
                  relative_error(loss.box_regression, root.at("box_regression")), 1e-5));
  loss.backward();
  check_whole_gradient(model);
  check_statistics(model);
  const auto found = postprocess(outputs, model.config(), kGoldenPadded, golden_image_sizes(),
                                 PostprocessOptions());
  check_detections(found);
  check_ap(found);
}

TEST_P(ModelParity, ChannelsLastAgreesToo) {
  RetinaNet model = golden_model();
  use_channels_last(model);
  const torch::NoGradGuard no_gradient;
  check_outputs(model.forward(golden_images()), ", channels last");
}

// In f64: in f32 an activation beside ReLU's kink is on either side of it, as the CPU's kernels
// have it.
TEST_P(ModelParity, GradientsInF64AreTorchvisionsAndEqualCentralDifferences) {
  constexpr double kStep = 1e-7;
  RetinaNet model = golden_model();
  model.to(at::kDouble);
  const at::Tensor images = golden_images().to(at::kDouble);
  const at::Tensor anchors = anchors_for(model.config(), kGoldenPadded, images.options());
  const auto loss = [&] {
    return detection_loss(model.forward(images), anchors, batch_of(golden_targets()),
                          golden_loss_options(name_), 2);
  };
  loss().backward();
  check_gradients(model);
  const torch::NoGradGuard no_gradient;
  // Sum over parameters of |gradient|: what the loss gains along every tensor's own gradient.
  double expected = 0;
  for (const auto& [name, parameter] : parameters_of(model)) {
    const double norm = parameter.grad().norm().item<double>();
    if (norm == 0) continue;
    parameter.mutable_grad().div_(norm);
    expected += norm;
  }
  const auto moved = [&](double step) {
    for (const auto& [name, tensor] : parameters_of(model)) tensor.add_(tensor.grad(), step);
    const DetectionLoss sums = loss();
    return (sums.classification + sums.box_regression).item<double>();
  };
  const double above = moved(kStep), below = moved(-2 * kStep);
  const double slope = (above - below) / (2 * kStep);
  EXPECT_TRUE(row("gradient against f64 differences", std::abs(slope / expected - 1), 1e-5));
}

INSTANTIATE_TEST_SUITE_P(, ModelParity, testing::ValuesIn(kGoldenCases),
                         [](const auto& case_info) { return std::string(case_info.param); });

}  // namespace
}  // namespace retina
