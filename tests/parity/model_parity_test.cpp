// The whole network against torchvision: same weights and images, same outputs, losses, gradients
// and detections. The bounds are the project's promise (README, "Exactness").
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <set>

#include "shared/model/postprocess.h"
#include "tests/parity/golden.h"
#include "train/loss/detection_loss.h"

namespace retina {
namespace {

std::vector<BoxTargets> golden_targets() {
  return {{.boxes = torch::tensor({10.5, 20.0, 90.25, 120.0, 100.0, 30.0, 130.0, 75.5, 60.0, 60.0,
                                   68.0, 71.0})
                        .view({3, 4})
                        .to(at::kFloat),
           .labels = torch::tensor({1, 4, 0}, at::kLong),
           .counts = true},
          {.boxes = torch::zeros({0, 4}), .labels = torch::zeros({0}, at::kLong), .counts = true}};
}

DetectionLoss golden_loss(const RetinaNet& model, const HeadOutputs& outputs) {
  const at::Tensor anchors = anchors_for(model->config(), kGoldenPadded, outputs.deltas.options());
  return detection_loss(outputs, anchors, golden_targets(), LossOptions(), /*images_global=*/2);
}

class ModelParity : public testing::TestWithParam<const char*> {
 protected:
  const std::string name_ = GetParam();
  const JsonFile golden_ = read_golden(name_ + ".json");
  RetinaNet model_ = golden_model(name_);
  HeadOutputs outputs_ = model_->forward(golden_images());
};

TEST_P(ModelParity, LogitsAndDeltasAgree) {
  EXPECT_LE(deviation(golden_.root().at("logits"), outputs_.logits).largest, 1e-4);
  EXPECT_LE(deviation(golden_.root().at("deltas"), outputs_.deltas).largest, 1e-4);
}

TEST_P(ModelParity, ChannelsLastAgreesToo) {
  RetinaNet model = golden_model(name_);
  use_channels_last(model);
  const HeadOutputs outputs = model->forward(golden_images());
  EXPECT_LE(deviation(golden_.root().at("logits"), outputs.logits).largest, 1e-4);
  EXPECT_LE(deviation(golden_.root().at("deltas"), outputs.deltas).largest, 1e-4);
}

TEST_P(ModelParity, LossesAgree) {
  const DetectionLoss loss = golden_loss(model_, outputs_);
  const double classification = golden_.root().at("classification").as_double();
  const double box_regression = golden_.root().at("box_regression").as_double();
  EXPECT_NEAR(loss.classification.item<double>() / classification, 1, 1e-5);
  EXPECT_NEAR(loss.box_regression.item<double>() / box_regression, 1, 1e-5);
}

TEST_P(ModelParity, EveryGradientAgreesByName) {
  const DetectionLoss loss = golden_loss(model_, outputs_);
  (loss.classification + loss.box_regression).backward();
  const JsonView gradients = golden_.root().at("gradients");
  const auto parameters = model_->named_parameters();
  ASSERT_EQ(parameters.size(), gradients.raw().MemberCount());
  for (const auto& item : parameters) {
    const at::Tensor& gradient = item.value().grad();
    ASSERT_TRUE(gradient.defined()) << item.key();
    EXPECT_LE(deviation(gradients.at(item.key().c_str()), gradient).relative, 1e-3) << item.key();
  }
}

TEST_P(ModelParity, RunningStatisticsMoveAlike) {
  for (const auto& item : model_->named_buffers()) {
    const JsonView golden = golden_.root().at("buffers").at(item.key().c_str());
    EXPECT_LE(deviation(golden, item.value()).relative, 1e-5) << item.key();
  }
}

// How many golden detections have a partner of their own: same label, box within 1e-2 px, score
// within 1e-4. Scores closer than rounding may swap places, so places are not compared.
std::size_t partner_count(const ImageDetections& found, const JsonView& golden) {
  const at::Tensor boxes = found.boxes.to(at::kDouble).contiguous();
  const at::Tensor scores = found.scores.to(at::kDouble), labels = found.labels;
  const auto box = boxes.accessor<double, 2>();
  const auto score = scores.accessor<double, 1>();
  const auto label = labels.accessor<std::int64_t, 1>();
  const at::Tensor golden_boxes = table(golden.at("boxes"));
  const auto golden_box = golden_boxes.accessor<double, 2>();
  std::set<std::int64_t> taken;
  for (std::int64_t g = 0; g < golden_boxes.size(0); ++g) {
    const auto place = static_cast<std::size_t>(g);
    const double golden_score = golden.at("scores").at(place).as_double();
    const std::int64_t golden_label = golden.at("labels").at(place).as_int();
    for (std::int64_t d = 0; d < boxes.size(0); ++d) {
      bool same = label[d] == golden_label && std::abs(score[d] - golden_score) <= 1e-4;
      for (std::int64_t i = 0; i < 4; ++i) {
        same = same && std::abs(box[d][i] - golden_box[g][i]) <= 1e-2;
      }
      if (same && taken.insert(d).second) break;
    }
  }
  return taken.size();
}

TEST_P(ModelParity, DetectionsAreTheSame) {
  const auto found = postprocess(outputs_, model_->config(), kGoldenPadded, golden_image_sizes(),
                                 PostprocessOptions());
  const JsonView golden = golden_.root().at("detections");
  ASSERT_EQ(found.size(), golden.size());
  for (std::size_t image = 0; image < found.size(); ++image) {
    const std::size_t count = golden.at(image).at("scores").size();
    EXPECT_EQ(found[image].scores.size(0), static_cast<std::int64_t>(count));
    EXPECT_EQ(partner_count(found[image], golden.at(image)), count);
  }
}

INSTANTIATE_TEST_SUITE_P(, ModelParity, testing::Values("v1", "v2"),
                         [](const auto& case_info) { return std::string(case_info.param); });

}  // namespace
}  // namespace retina
