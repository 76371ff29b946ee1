// Run by ctest under mpirun on 1, 2 and 4 ranks: what 8 images teach a classifier does not depend
// on how many processes share them: with dropout (Keras' network), and with batch norm over all
// ranks (ResNet). Prints a row a comparison and ends with 1 when a bound is missed.
#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>

#include <cstdio>
#include <memory>

#include "shared/base/random.h"
#include "shared/comm/communicator.h"
#include "shared/model/network_shape.h"
#include "tests/train/reduce/shared_step.h"
#include "train/plan/epoch_plan.h"
#include "train/reduce/queued_rank_sum.h"
#include "train/step/training_task.h"

namespace retina {
namespace {

constexpr Difference kBound = {.of_norm = 1e-12, .of_tensor = 1e-10};
constexpr int kSidePx = 32;
constexpr int kClasses = 4;
constexpr std::uint64_t kSeed = 20261125;

ModelConfig classifier(const std::string& backbone, Norm norm) {
  ModelConfig config;
  config.task = Task::kClassification;
  config.backbone = backbone;
  config.class_count = kClasses;
  config.norm = norm;
  config.min_side_px = config.max_side_px = kSidePx;
  return config;
}

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

// The gradients of the step, in f64.
NamedTensors gradients_of(const ModelConfig& model, bool sync_bn, Communicator& communicator) {
  const auto task = make_training_task({.model = model, .label_smoothing = 0.1, .seed = kSeed});
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
    const TaskLoss loss = task->loss(task->forward(images, batch), batch);
    buckets.expect_last_backward();
    loss.backward();
  }
  buckets.all_reduce();
  return result_of(task->network()).gradients;
}

int check(Communicator& communicator) {
  at::set_num_threads(1);  // ranks share the cores
  const auto alone = make_self_communicator();
  bool good = true;
  const auto compare_with_one = [&](const char* what, const ModelConfig& model, bool sync_bn) {
    const NamedTensors ours = gradients_of(model, sync_bn, communicator);
    if (!communicator.is_root()) return;
    const Difference found = compare(ours, gradients_of(model, sync_bn, *alone));
    const bool holds = found.of_norm <= kBound.of_norm && found.of_tensor <= kBound.of_tensor;
    good = good && holds;
    std::printf("%d images on %d ranks, %s: gradients %.1e of the norm (bound %.0e)%s\n",
                kStepImages, communicator.size(), what, found.of_norm, kBound.of_norm,
                holds ? "" : "  MISSED");
    std::fflush(stdout);
  };
  compare_with_one("cifar-cnn with dropout", classifier(kCifarCnn, Norm::kBatch), false);
  compare_with_one("resnet18, frozen norm", classifier("resnet18", Norm::kFrozen), false);
  compare_with_one("resnet18, --sync-bn", classifier("resnet18", Norm::kBatch), true);
  return communicator.all_reduce_max(good ? 0 : 1) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace retina

int main() {
  retina::MpiSession session;
  const auto communicator = retina::make_communicator(session);
  const int code = retina::check(*communicator);
  session.finish();
  return code;
}
