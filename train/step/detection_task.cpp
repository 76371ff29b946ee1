#include <ATen/ops/stack.h>

#include "shared/model/autocast.h"
#include "shared/model/postprocess.h"
#include "shared/model/retinanet.h"
#include "train/step/training_task.h"

namespace retina {
namespace {

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
        anchors_for(options_.model, {batch.padded_height_px, batch.padded_width_px},
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

}  // namespace

std::unique_ptr<TrainingTask> make_detection_task(const TaskOptions& options) {
  return std::make_unique<DetectionTask>(options);
}

}  // namespace retina
