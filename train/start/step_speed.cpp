#include "train/start/step_speed.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "shared/base/measure.h"
#include "shared/model/device.h"

namespace retina {
namespace {

constexpr int kSidePx = 256;
constexpr int kImages = 2;  // not one, whose layout in memory is that of channels first and last
constexpr int kSteps = 4;
constexpr double kMostSeconds = 1;  // of a measurement, once it has a step
constexpr double kWorthIt = .85;    // bf16's largest share of fp32's time

double seconds_per_pixel(const TrainOptions& options, int class_count, const c10::Device& device) {
  const auto alone = make_self_communicator();
  Replica replica(replica_options(options, class_count, device), *alone);
  const Batch batch = grey_batch({kSidePx, kSidePx}, kImages, replica.network());
  double least_s = std::numeric_limits<double>::infinity();
  const double begin_s = now_seconds();
  // The first step makes the kernels; a network that is slow at it is measured by it all the same.
  for (int step = 1; step <= kSteps && (step == 1 || now_seconds() - begin_s < kMostSeconds);
       ++step) {
    Stopwatch watch;
    replica.begin_step();
    replica.backward(replica.loss(replica.forward(batch), batch), /*is_last_micro_batch=*/true);
    replica.all_reduce();
    replica.update(/*learning_rate=*/0, step);
    replica.take_metrics();  // waits for the device
    least_s = std::min(least_s, watch.lap_ms() * 1e-3);
  }
  return least_s / (kImages * kSidePx * kSidePx);
}

}  // namespace

ReplicaOptions replica_options(const TrainOptions& options, int class_count,
                               const c10::Device& device) {
  return {.task = {.model = options.model_config(class_count),
                   .loss = options.loss,
                   .label_smoothing = options.label_smoothing,
                   .seed = options.seed,
                   .precision = options.compute.precision},
          .optimizer = options.optimizer_options(),
          .buckets = options.bucket_options(),
          .sync_bn = options.model.sync_bn,
          .trainable_layers = options.layers_to_train(),
          .device = device,
          .tf32 = options.compute.tf32,
          .clip_norm = options.optimizer.clip_norm,
          .ema = options.optimizer.ema};
}

Batch grey_batch(const ImageSize& padded, int images, const Network& network) {
  Batch batch{.padded_width_px = padded.width, .padded_height_px = padded.height};
  const std::size_t values = std::size_t{3} * static_cast<std::size_t>(padded.width) *
                             static_cast<std::size_t>(padded.height);
  const auto count = static_cast<std::size_t>(images);
  Sample sample{.slot = {},
                .original_width_px = padded.width,
                .original_height_px = padded.height,
                .width_px = padded.width,
                .height_px = padded.height};
  if (network.config().task == Task::kClassification) sample.labels = {0};
  batch.samples.assign(count, sample);
  if (network.device().is_cuda()) {
    for (std::size_t i = 0; i < count; ++i) batch.offsets.push_back(i * values);
    const std::shared_ptr<void> memory = allocate_pinned(count * values);
    std::memset(memory.get(), 0, count * values);
    batch.stored = {memory, static_cast<std::uint8_t*>(memory.get())};
  } else {
    batch.images = std::make_shared<float[]>(count * values);
  }
  batch.part.real_image_count = images;
  return batch;
}

StepSpeed measure_step(TrainOptions options, int class_count, const c10::Device& device) {
  const auto measure = [&](Precision precision) {
    options.compute.precision = precision;
    return seconds_per_pixel(options, class_count, device);
  };
  const Precision wanted = options.compute.precision;
  if (wanted != Precision::kAuto) return {measure(wanted), wanted};
  const double fp32 = measure(Precision::kFp32);
  if (!has_units_for(Precision::kBf16, device)) return {fp32, Precision::kFp32};
  const double bf16 = measure(Precision::kBf16), share = bf16 / fp32;
  return share <= kWorthIt ? StepSpeed{bf16, Precision::kBf16, share}
                           : StepSpeed{fp32, Precision::kFp32, share};
}

}  // namespace retina
