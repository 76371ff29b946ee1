#include "train/step/detection_task.h"

#include <ATen/ops/stack.h>

#include "shared/model/autocast.h"
#include "shared/model/postprocess.h"
#include "train/step/batch_targets.h"

namespace retina {

Pass DetectionTask::pass(const at::Tensor& images, const Batch& batch, StepClock& clock) {
  const c10::Device device = network_.device();
  const BatchTargets targets = batch_targets(batch, device);
  clock.begin(&PartTimes::forward_ms);
  HeadOutputs outputs;
  {
    const AutocastScope autocast(options_.precision, device.type());
    outputs = network_.forward(images);
  }
  clock.begin(&PartTimes::loss_ms);
  const at::Tensor anchors =
      anchors_for(options_.model, {batch.padded_height_px, batch.padded_width_px},
                  at::TensorOptions().device(device));  // [A, 4]
  DetectionLoss loss =
      detection_loss(outputs, anchors, targets, options_.loss, batch.part.real_image_count);
  return {.metrics = at::stack({loss.classification, loss.box_regression}).to(at::kDouble),
          .outputs = std::move(loss.outputs),
          .gradients = std::move(loss.gradients)};
}

}  // namespace retina
