#include "train/step/training_task.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <torch/csrc/autograd/autograd.h>

#include <utility>

#include "shared/base/error.h"
#include "shared/model/autocast.h"
#include "shared/model/classifier.h"
#include "shared/model/postprocess.h"
#include "shared/model/retinanet.h"
#include "train/step/classification_loss.h"

namespace retina {
namespace {

// Boxes with classes: a RetinaNet and its losses (detection_loss.h).
class DetectionTask : public TrainingTask {
 public:
  explicit DetectionTask(const TaskOptions& options) : options_(options), network_(options.model) {}

  RetinaNet& network() override { return network_; }

  TaskOutputs forward(const at::Tensor& images, const Batch&) override {
    const AutocastScope autocast(options_.precision, network_.device().type());
    return {.heads = network_.forward(images)};
  }

  TaskLoss loss(const TaskOutputs& outputs, const Batch& batch,
                const at::Tensor& gradient_scale) override {
    const c10::Device device = network_.device();
    const at::Tensor anchors =
        anchors_for(options_.model, {batch.padded.height, batch.padded.width},
                    at::TensorOptions().device(device));  // [A, 4]
    DetectionLoss loss = detection_loss(outputs.heads, anchors, batch_targets(batch, device),
                                        options_.loss, batch.part.real_image_count, gradient_scale);
    return {.metrics = at::stack({loss.classification, loss.box_regression}).to(at::kDouble),
            .outputs = std::move(loss.outputs),
            .gradients = std::move(loss.gradients)};
  }

 private:
  TaskOptions options_;
  RetinaNet network_;
};

// Returns labels, counts and slots of a batch's images as rows of one tensor, [3, N] i64, on the
// device.
at::Tensor rows_of(const Batch& batch, c10::Device device) {
  const auto count = static_cast<std::int64_t>(batch.samples.size());
  const at::Tensor rows =
      at::empty({3, count}, at::TensorOptions().dtype(at::kLong).pinned_memory(device.is_cuda()));
  std::int64_t* const values = rows.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    const Sample& sample = batch.samples[static_cast<std::size_t>(i)];
    RETINA_CHECK(sample.labels.size() == 1);
    values[i] = sample.labels.front();
    values[count + i] = sample.slot.counts ? 1 : 0;
    values[2 * count + i] = batch.part.first_slot + i;
  }
  return rows.to(device, /*non_blocking=*/true);
}

// One class for the whole image: a classifier and cross-entropy (classification_loss.h).
class ClassificationTask : public TrainingTask {
 public:
  explicit ClassificationTask(const TaskOptions& options)
      : options_(options), network_(make_classifier(options.model)) {}

  Classifier& network() override { return *network_; }

  TaskOutputs forward(const at::Tensor& images, const Batch& batch) override {
    const c10::Device device = network_->device();
    TaskOutputs outputs{.targets = rows_of(batch, device)};
    const AutocastScope autocast(options_.precision, device.type());
    outputs.logits = network_->forward(
        images, {.seed = options_.seed, .step = batch.part.step, .slots = outputs.targets[2]});
    return outputs;
  }

  TaskLoss loss(const TaskOutputs& outputs, const Batch& batch,
                const at::Tensor& gradient_scale) override {
    const at::Tensor targets =
        outputs.targets.defined() ? outputs.targets : rows_of(batch, network_->device());
    const ClassificationLoss loss =
        classification_loss(outputs.logits, {.labels = targets[0], .counts = targets[1]},
                            options_.label_smoothing, batch.part.real_image_count);
    return {
        .metrics = at::stack({loss.cross_entropy.detach(), loss.top1, loss.top5}).to(at::kDouble),
        .outputs = {loss.cross_entropy},
        .gradients = {gradient_scale.defined() ? gradient_scale
                                               : at::ones_like(loss.cross_entropy)}};
  }

 private:
  TaskOptions options_;
  std::unique_ptr<Classifier> network_;
};

}  // namespace

void TaskLoss::backward() const {
  torch::autograd::backward(outputs, gradients);
}

std::unique_ptr<TrainingTask> make_training_task(const TaskOptions& options) {
  if (options.model.task == Task::kDetection) return std::make_unique<DetectionTask>(options);
  return std::make_unique<ClassificationTask>(options);
}

}  // namespace retina
