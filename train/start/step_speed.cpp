#include "train/start/step_speed.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "shared/base/measure.h"
#include "shared/model/device.h"

namespace retina {
namespace {

constexpr int kSteps = 5;
constexpr double kMostSeconds[kSteps] = {1, 4, 1, 1, 1};  // of those before each of the steps
constexpr double kWorthIt = .85;                          // bf16's largest share of fp32's time

// A network that is measured: trained at a rate of 0 on grey images.
class Measured {
 public:
  Measured(TrainOptions options, Precision precision, int class_count, const c10::Device& device,
           int side_px, int images)
      : replica_(
            [&] {
              options.compute.precision = precision;
              return replica_options(options, class_count, device);
            }(),
            *alone_),
        batch_(grey_batch({side_px, side_px}, images, replica_.network())) {}

  // Makes a step; returns its seconds.
  double step() {
    Stopwatch watch;
    replica_.begin_step();
    replica_.backward(replica_.loss(replica_.forward(batch_), batch_),
                      /*is_last_micro_batch=*/true);
    replica_.all_reduce();
    replica_.update(/*learning_rate=*/0, ++step_);
    replica_.take_metrics();  // waits for the device
    return watch.lap_ms() * 1e-3;
  }

 private:
  std::unique_ptr<Communicator> alone_ = make_self_communicator();
  Replica replica_;
  Batch batch_;
  std::int64_t step_ = 0;
};

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
  Batch batch{.padded = padded};
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

StepSpeed measure_step(const TrainOptions& options, int class_count, const c10::Device& device,
                       int side_px, int images) {
  if (options.classifies()) side_px = options.min_side();  // cifar-cnn takes no other
  const Precision wanted = options.compute.precision;
  const bool is_open = wanted == Precision::kAuto;
  const bool compares = is_open && has_units_for(Precision::kBf16, device);
  std::vector<std::unique_ptr<Measured>> networks;
  for (const Precision one : {is_open ? Precision::kFp32 : wanted, Precision::kBf16}) {
    if (networks.empty() || compares) {
      networks.push_back(
          std::make_unique<Measured>(options, one, class_count, device, side_px, images));
    }
  }
  // In turns, so that other programs slow all of them. The first step makes the kernels and may
  // wait for the program to be read; a network that is very slow at it is measured by it all the
  // same.
  std::vector<double> seconds(networks.size());
  int steps = 0;
  for (double all_s = 0; steps < kSteps && all_s < kMostSeconds[steps]; ++steps) {
    for (std::size_t i = 0; i < networks.size(); ++i) {
      const double step_s = networks[i]->step();
      seconds[i] = steps < 2 ? step_s : seconds[i] + step_s;
      all_s += step_s;
    }
  }
  const double pixels = 1.0 * std::max(1, steps - 1) * images * side_px * side_px;
  if (!compares) return {seconds[0] / pixels, is_open ? Precision::kFp32 : wanted};
  const double share = seconds[1] / seconds[0];
  const bool is_faster = share <= kWorthIt;
  return {seconds[is_faster ? 1 : 0] / pixels, is_faster ? Precision::kBf16 : Precision::kFp32,
          share};
}

}  // namespace retina
