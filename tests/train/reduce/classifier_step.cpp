#include "tests/train/reduce/classifier_step.h"

#include <ATen/ops/from_blob.h>

#include <memory>

#include "shared/base/random.h"
#include "shared/model/network_shape.h"
#include "tests/train/reduce/shared_step.h"
#include "train/plan/epoch_plan.h"
#include "train/reduce/gradient_buckets.h"
#include "train/step/training_task.h"

namespace retina {
namespace {

constexpr int kSidePx = 32;
constexpr int kClasses = 4;
constexpr std::uint64_t kSeed = 20261125;

Batch batch_of(const BatchRequest& request) {
  const RandomStream random = {.seed = kSeed, .use = RandomUse::kTest};
  constexpr std::size_t kPixels = std::size_t{3} * kSidePx * kSidePx;
  Batch batch{.padded_width_px = kSidePx, .padded_height_px = kSidePx, .part = request.part};
  batch.images = std::make_shared<float[]>(request.slots.size() * kPixels);
  std::size_t written = 0;
  for (const Slot& slot : request.slots) {
    for (std::size_t i = 0; i < kPixels; ++i) {
      batch.images[static_cast<std::ptrdiff_t>(written++)] =
          static_cast<float>(4 * random.unit(slot.record * kPixels + i) - 2);
    }
    batch.samples.push_back(
        {.slot = slot, .labels = {static_cast<std::int64_t>(slot.record) % kClasses}});
  }
  return batch;
}

}  // namespace

NamedTensors classifier_gradients(const std::string& backbone, Norm norm, bool sync_bn,
                                  Communicator& communicator) {
  ModelConfig config;
  config.task = Task::kClassification;
  config.backbone = backbone;
  config.class_count = kClasses;
  config.norm = norm;
  config.min_side_px = config.max_side_px = kSidePx;
  const auto task = make_training_task({.model = config, .label_smoothing = 0.1, .seed = kSeed});
  initialise(task->network(), kSeed);
  task->network().to(at::kDouble);
  NamedTensors parameters;
  for (const auto& [name, tensor, is_parameter] : task->network().tensors()) {
    if (is_parameter) parameters.push_back({name, tensor});
  }
  GradientBuckets buckets(parameters, kManyBuckets, communicator);
  std::unique_ptr<QueuedRankSum> sum;
  if (sync_bn && buckets.queue() != nullptr) {
    sum = std::make_unique<QueuedRankSum>(*buckets.queue());
    task->network().share_statistics(sum.get());
  }
  // The last slot is a pad slot.
  GlobalStep step{.number = 3, .real_image_count = kStepImages - 1, .framing = Framing::kSquare};
  for (std::size_t image = 0; image < kStepImages; ++image) {
    step.slots.push_back({.record = image, .counts = image + 1 < kStepImages});
  }
  for (const BatchRequest& request :
       rank_micro_batches(step, communicator.rank(), communicator.size(), /*micro_batch=*/0)) {
    const Batch batch = batch_of(request);
    const auto count = static_cast<std::int64_t>(batch.samples.size());
    const at::Tensor images =
        at::from_blob(batch.images.get(), {count, 3, kSidePx, kSidePx}, at::kFloat).to(at::kDouble);
    const TaskLoss loss = task->loss(task->forward(images, batch), batch, {});
    buckets.expect_last_backward();
    loss.backward();
  }
  buckets.all_reduce();
  return result_of(task->network()).gradients;
}

}  // namespace retina
