// One rank's copy of the trained state: model, gradients in buckets, optimizer. All ranks' replicas
// hold the same values after construction, broadcast(), update() and restore(), except for the
// running statistics of batch norm.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "shared/checkpoint/checkpoint.h"
#include "shared/comm/communicator.h"
#include "shared/data/batch.h"
#include "shared/ops/image_upload.h"
#include "train/reduce/gradient_buckets.h"
#include "train/step/batch_statistics.h"
#include "train/step/grad_scaler.h"
#include "train/step/optimizer.h"
#include "train/step/step_clock.h"
#include "train/step/task_metrics.h"
#include "train/step/training_task.h"
#include "train/step/weight_average.h"

namespace retina {

struct ReplicaOptions {
  // The task, with the seed of the weights. Its precision is that of convolutions: weights, loss
  // and update stay f32. In fp16 gradients are scaled (grad_scaler.h).
  TaskOptions task = {};
  OptimizerOptions optimizer = {};
  BucketOptions buckets = {};
  bool sync_bn = false;  // batch norm over the images of all ranks
  int trainable_layers = 5;
  c10::Device device = c10::kCPU;
  bool tf32 = false;     // f32 products of forward and backward in TF32, on GPUs
  double clip_norm = 0;  // 0: no clipping
  double ema = 0;        // decay of the weights' moving average; 0: none
};

// Results of a step's micro-batches and update on one rank.
struct StepSums {
  TaskMetrics of_task = {};  // this rank's parts
  double gradient_norm = 0;  // norm of all ranks' gradient, before clipping
  double loss_scale = 0;     // used by backward; 0: none
  PartTimes parts = {};
};

class Replica {
 public:
  // Draws the weights from the seed. Collective. `communicator` must outlive this.
  Replica(const ReplicaOptions& options, Communicator& communicator);

  Network& network() { return task_->network(); }
  TrainingTask& task() { return *task_; }

  // Replaces the weights on every rank with rank 0's, after that rank has changed them.
  void broadcast();

  // Keeps the statistics that the step's forward passes will change; called before its first
  // micro-batch.
  void begin_step();
  // Discards the effects of the step's micro-batches so far, as if it had not begun.
  void drop_step();

  // Returns the peak memory of the device in each part of a step of this one micro-batch, beyond
  // the memory held now: forward, the loss, and backward from one parameter's
  // gradient to the next, the same parts for every batch. No step may be under way, and this one
  // leaves no trace. With sync_bn collective.
  std::vector<std::int64_t> trace_step(const Batch& batch);

  // Call the next three in order for each micro-batch; on a GPU they return before the work is
  // done.
  //
  // Uploads the images [N, 3, H, W] and runs the network. With sync_bn collective: batch norm is
  // over the images of all ranks in that micro-batch, so all ranks need as many of them.
  TaskOutputs forward(const Batch& batch);
  // Returns the batch's part of the step's loss, which is the mean over the step's real images, and
  // its gradient at the outputs.
  TaskLoss loss(const TaskOutputs& outputs, const Batch& batch);
  // Adds the parameters' gradients to those of the step's micro-batches so far. In the last
  // micro-batch they leave for the other ranks, bucket by bucket, while backward is still
  // computing; from there to the end of `all_reduce` the communicator is the replica's. With
  // sync_bn collective.
  void backward(const TaskLoss& loss, bool is_last_micro_batch);

  // Sums the gradients over ranks: waits for those on their way, sends the rest. Collective.
  void all_reduce() { buckets_->all_reduce(); }
  // Returns the cost of the last one on this rank.
  const ReduceCost& reduce_cost() const { return buckets_->cost(); }

  const GradientBuckets& gradients() const { return *buckets_; }

  // Clips, makes update number `step` (from 1), clears the gradients. A step whose loss or gradient
  // is not finite changes neither weights nor the optimizer's state; in fp16 a gradient that is not
  // finite halves the loss scale, on all ranks alike. A GPU does this without waiting.
  void update(double learning_rate, std::int64_t step);

  // Returns the metrics of the oldest update not yet taken; waits until the device has made it.
  StepSums take_metrics();

  // Gives the network its averaged weights, which are validated and saved, while the returned scope
  // lives; without --ema nothing changes.
  AverageScope use_average() { return AverageScope(average_.get()); }

  // Makes the running statistics of batch norm the mean over ranks: every rank saw different
  // images. Collective; does nothing with a frozen norm, sync_bn or one rank.
  void average_statistics();

  // Returns the time spent waiting for other ranks in forward and backward since the last call: 0
  // without sync_bn.
  double take_sync_wait_ms() {
    return shared_statistics_ ? 1e3 * shared_statistics_->take_wait_seconds() : 0;
  }

  // Returns a hash of all that every rank must hold with the same bits: parameters, optimizer,
  // averages; not the running statistics, which each rank gathers from its own images.
  std::uint64_t hash();

  // Discards accumulated gradients and all untaken metrics.
  void drop_gradients();

  // Returns the bytes that `snapshot` copies.
  std::int64_t snapshot_bytes() const;

  // Copies the state to the CPU, so that training may go on while it is written. With --ema
  // `checkpoint.model` holds the averages, and `checkpoint.optimizer` the weights in training as
  // "weight.NAME".
  void snapshot(Checkpoint& checkpoint);
  // Restores weights and optimizer on rank 0 and sends them to all. `checkpoint` is used on rank 0
  // only; `updates_done` on all. Throws kConfig, kData with `source` as the subject.
  void restore(const Checkpoint& checkpoint, std::int64_t updates_done, const std::string& source);

 private:
  struct Update {
    // f64: the task's metrics, the gradient's norm, the loss scale; on the host when the marks are
    // passed.
    at::Tensor metrics;
    std::vector<StepClock::Mark> marks;
  };
  void broadcast_tensor(const at::Tensor& tensor);
  void average_over_ranks(const NamedTensors& state);
  at::Tensor loss_scale() const { return scaler_ ? scaler_->scale() : at::Tensor(); }
  void load(const Checkpoint& checkpoint, const std::string& source);
  void restore_scaler(const Checkpoint& checkpoint, const std::string& source);
  ReplicaOptions options_;
  Communicator& communicator_;
  StepClock clock_;
  ImageUpload upload_;
  std::unique_ptr<TrainingTask> task_;
  std::unique_ptr<GradScaler> scaler_;  // null except in fp16
  std::unique_ptr<GradientBuckets> buckets_;
  std::unique_ptr<QueuedRankSum> shared_statistics_;  // null without sync_bn or on one rank
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<WeightAverage> average_;       // null without --ema
  std::unique_ptr<BatchStatistics> statistics_;  // as they were when the step began
  at::Tensor metrics_;                           // sum over the micro-batches since the last update
  std::deque<Update> updates_;                   // updates whose metrics have not been taken
};

}  // namespace retina
