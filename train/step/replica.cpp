#include "train/step/replica.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/comm/activity.h"
#include "shared/model/autocast.h"
#include "shared/model/device.h"

namespace retina {
namespace {

// Part of the checkpoint format; never rename.
constexpr const char* kRawPrefix = "weight.";

NamedTensors trainable_parameters(const Network& network) {
  NamedTensors list;
  for (const auto& [name, tensor] : state_of(network)) {
    if (tensor.requires_grad()) list.push_back({name, tensor});
  }
  return list;
}

// Enables TF32 during its life, if `on`; IEEE f32 after it.
class Tf32Scope {
 public:
  explicit Tf32Scope(bool on) { set_tf32(on); }
  ~Tf32Scope() { set_tf32(false); }
  Tf32Scope(const Tf32Scope&) = delete;
  Tf32Scope& operator=(const Tf32Scope&) = delete;
};

// Enables LibTorch's own convolutions on CPUs during its life, if `on`: for gradients of weights in
// fp16 oneDNN has only its reference implementation.
class NativeConvScope {
 public:
  explicit NativeConvScope(bool on) { at::globalContext().setUserEnabledMkldnn(!on); }
  ~NativeConvScope() { at::globalContext().setUserEnabledMkldnn(true); }
  NativeConvScope(const NativeConvScope&) = delete;
  NativeConvScope& operator=(const NativeConvScope&) = delete;
};

// Returns a copy on the host, which a GPU makes without waiting.
at::Tensor to_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  const at::Tensor host =
      at::empty(tensor.sizes(), tensor.options().device(at::kCPU).pinned_memory(true));
  return host.copy_(tensor, /*non_blocking=*/true);
}

ElementType element_type(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return ElementType::kFloat32;
    case at::kDouble:
      return ElementType::kFloat64;
    case at::kLong:
      return ElementType::kInt64;
    default:
      RETINA_CHECK(false, "no element type for ", at::toString(tensor.scalar_type()));
  }
}

// Measures the peak memory of tensors on devices of one kind in each part of a piece of work, as
// LibTorch's allocators report it to threads with a c10::DebugInfoGuard that holds this.
class MemoryTrace : public c10::MemoryReportingInfoBase {
 public:
  // Begins the first part.
  explicit MemoryTrace(c10::DeviceType device) : device_(device) {}

  // `bytes` are less than 0 where memory is freed.
  void reportMemoryUsage(void* /*memory*/, std::int64_t bytes, std::size_t /*allocated*/,
                         std::size_t /*reserved*/, c10::Device device) override {
    if (device.type() != device_) return;
    const std::lock_guard lock(mutex_);
    now_ += bytes;
    peaks_.back() = std::max(peaks_.back(), now_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  void begin_part() {
    const std::lock_guard lock(mutex_);
    peaks_.push_back(now_);
  }

  // Returns, for each part so far, the most bytes held at once, beyond those at the start.
  std::vector<std::int64_t> peaks() const {
    const std::lock_guard lock(mutex_);
    return peaks_;
  }

 private:
  const c10::DeviceType device_;
  mutable std::mutex mutex_;  // autograd has a thread for each GPU
  std::int64_t now_ = 0;
  std::vector<std::int64_t> peaks_ = {0};
};

}  // namespace

Replica::Replica(const ReplicaOptions& options, Communicator& communicator)
    : options_(options),
      communicator_(communicator),
      clock_(options.device),
      upload_(options.device, options.task.model.normalisation(), type_of(options.task.precision)),
      task_(make_training_task(options.task)) {
  initialise(network(), options.task.seed);
  network().to(options.device);
  use_channels_last(network());
  freeze_backbone(network(), options.trainable_layers);
  const auto parameters = trainable_parameters(network());
  if (options.task.precision == Precision::kFp16) {
    scaler_ = std::make_unique<GradScaler>(GradScalerOptions{}, options.device);
  }
  buckets_ =
      std::make_unique<GradientBuckets>(parameters, options.buckets, communicator, loss_scale());
  if (options.sync_bn && buckets_->queue() != nullptr) {
    shared_statistics_ = std::make_unique<QueuedRankSum>(*buckets_->queue());
    network().share_statistics(shared_statistics_.get());
  }
  optimizer_ = std::make_unique<Optimizer>(parameters, options.optimizer);
  statistics_ = std::make_unique<BatchStatistics>(network());
  if (options.ema > 0) average_ = std::make_unique<WeightAverage>(network(), options.ema);
  broadcast();
}

void Replica::broadcast_tensor(const at::Tensor& tensor) {
  // The order is that of memory: all ranks lay their tensors out the same way.
  const at::NoGradGuard no_grad;
  const at::Tensor host = tensor.detach().cpu();
  RETINA_CHECK(host.is_non_overlapping_and_dense());
  communicator_.broadcast(host.data_ptr(), static_cast<std::size_t>(host.numel()),
                          element_type(host), 0);
  if (host.data_ptr() != tensor.data_ptr()) tensor.detach().copy_(host);
}

void Replica::broadcast() {
  if (communicator_.size() > 1) {
    for (const auto& [name, tensor] : state_of(network())) broadcast_tensor(tensor);
  }
  if (average_) average_->reset();
}

void Replica::begin_step() {
  statistics_->keep();
}

void Replica::drop_step() {
  statistics_->restore();
  buckets_->zero();
  metrics_.reset();
  clock_.take();
}

std::vector<std::int64_t> Replica::trace_step(const Batch& batch) {
  begin_step();
  const auto trace = std::make_shared<MemoryTrace>(options_.device.type());
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, trace);
  std::vector<std::pair<at::Tensor, unsigned>> hooks;
  for (const auto& [name, tensor] : trainable_parameters(network())) {
    hooks.emplace_back(tensor,
                       tensor.register_hook([&](const at::Tensor&) { trace->begin_part(); }));
  }
  const TaskOutputs outputs = forward(batch);
  trace->begin_part();
  const TaskLoss loss_part = loss(outputs, batch);
  trace->begin_part();
  backward(loss_part, /*is_last_micro_batch=*/false);
  for (const auto& [tensor, hook] : hooks) tensor.remove_hook(hook);
  drop_step();
  return trace->peaks();
}

TaskOutputs Replica::forward(const Batch& batch) {
  const PhaseScope phase(communicator_.activity(), Phase::kForward);
  const Tf32Scope tf32(options_.tf32);
  clock_.begin(&PartTimes::upload_ms);
  const at::Tensor images = upload_.images(batch);  // [N, 3, H, W]
  clock_.begin(&PartTimes::forward_ms);
  return task_->forward(images, batch);
}

TaskLoss Replica::loss(const TaskOutputs& outputs, const Batch& batch) {
  const PhaseScope phase(communicator_.activity(), Phase::kForward);
  const Tf32Scope tf32(options_.tf32);
  clock_.begin(&PartTimes::loss_ms);
  TaskLoss loss = task_->loss(outputs, batch, loss_scale());
  metrics_ = metrics_.defined() ? metrics_ + loss.metrics : loss.metrics;
  return loss;
}

void Replica::backward(const TaskLoss& loss, bool is_last_micro_batch) {
  const PhaseScope phase(communicator_.activity(), Phase::kBackward);
  const Tf32Scope tf32(options_.tf32);
  const NativeConvScope native(options_.task.precision == Precision::kFp16);
  if (is_last_micro_batch) buckets_->expect_last_backward();
  clock_.begin(&PartTimes::backward_ms);
  loss.backward();
  clock_.end();
}

void Replica::update(double learning_rate, std::int64_t step) {
  const at::NoGradGuard no_grad;
  clock_.begin(&PartTimes::update_ms);
  const at::Tensor norm = buckets_->norm();
  const at::Tensor scale =
      scaler_ ? scaler_->scale().to(at::kDouble) : at::zeros({}, norm.options());
  const at::Tensor metrics =
      at::cat({std::exchange(metrics_, {}), norm.view({1}), scale.view({1})});
  UpdateGuard guard = {.skip = metrics.isfinite().all().logical_not().to(at::kFloat)};
  // Depends on the gradient alone: its bits are the same on all ranks, while the loss is this
  // rank's part.
  if (scaler_) scaler_->update(norm.isfinite().logical_not().to(at::kFloat));
  if (options_.clip_norm > 0) guard.divisor = clip_divisor(norm, options_.clip_norm);
  optimizer_->step(learning_rate, guard);
  buckets_->zero();
  if (average_) average_->update(step);
  const at::Tensor on_host = to_host(metrics);
  clock_.end();
  updates_.push_back({.metrics = on_host, .marks = clock_.take()});
}

StepSums Replica::take_metrics() {
  RETINA_CHECK(!updates_.empty());
  const Update update = std::move(updates_.front());
  updates_.pop_front();
  // Waits: the copies to the host come before the last mark.
  const PartTimes parts = clock_.times(update.marks);
  const double* const values = update.metrics.const_data_ptr<double>();
  const std::int64_t task_count = update.metrics.size(0) - 2;
  StepSums metrics{
      .gradient_norm = values[task_count], .loss_scale = values[task_count + 1], .parts = parts};
  std::copy_n(values, task_count, metrics.of_task.begin());
  return metrics;
}

void Replica::drop_gradients() {
  drop_step();
  updates_.clear();
}

void Replica::average_over_ranks(const NamedTensors& state) {
  for (const auto& [name, tensor] : state) {
    if (!name.ends_with(".running_mean") && !name.ends_with(".running_var")) continue;
    const at::Tensor host = tensor.cpu();
    communicator_.all_reduce(host.data_ptr(), static_cast<std::size_t>(host.numel()),
                             element_type(host), ReduceOp::kSum);
    host.div_(communicator_.size());
    if (host.data_ptr() != tensor.data_ptr()) tensor.copy_(host);
  }
}

void Replica::average_statistics() {
  if (communicator_.size() == 1 || network().config().frozen_norm() || options_.sync_bn) return;
  const at::NoGradGuard no_grad;
  average_over_ranks(state_of(network()));
  if (average_) average_over_ranks(average_->state());
}

std::int64_t Replica::snapshot_bytes() const {
  std::size_t bytes = 0;
  const auto add = [&](const NamedTensors& state) {
    for (const auto& item : state) bytes += item.tensor.nbytes();
  };
  add(state_of(task_->network()));
  add(optimizer_->state());
  if (scaler_) add(scaler_->state());
  if (average_) add(average_->state());
  return static_cast<std::int64_t>(bytes);
}

std::uint64_t Replica::hash() {
  Hasher hasher;
  const auto add = [&](const at::Tensor& tensor) {
    const at::Tensor host = tensor.detach().cpu();
    RETINA_CHECK(host.is_non_overlapping_and_dense());
    hasher.update(host.data_ptr(), host.nbytes());
  };
  const auto add_state = [&](const NamedTensors& state) {
    for (const auto& [name, tensor] : state) {
      if (name.find(".running_") == std::string::npos) add(tensor);
    }
  };
  add_state(state_of(network()));
  if (average_) add_state(average_->state());
  for (const auto& item : optimizer_->state()) add(item.tensor);
  if (scaler_) add_state(scaler_->state());
  return hasher.digest();
}

void Replica::snapshot(Checkpoint& checkpoint) {
  const at::NoGradGuard no_grad;
  if (average_) {
    for (const auto& [name, tensor] : state_of(network())) {
      checkpoint.optimizer.push_back({kRawPrefix + name, tensor.detach().cpu().clone()});
    }
  }
  for (const auto& item : optimizer_->state()) {
    checkpoint.optimizer.push_back({item.name, item.tensor.cpu().clone()});
  }
  if (scaler_) {
    for (const auto& item : scaler_->state()) {
      checkpoint.optimizer.push_back({item.name, item.tensor.cpu()});
    }
  }
  const AverageScope averages = use_average();
  for (const auto& [name, tensor] : state_of(network())) {
    checkpoint.model.push_back({name, tensor.detach().cpu().clone()});
  }
}

void Replica::load(const Checkpoint& checkpoint, const std::string& source) {
  load_state(network(), checkpoint.model, source);
  if (!average_) return;
  average_->reset();
  NamedTensors raw;
  for (const auto& item : checkpoint.optimizer) {
    if (!item.name.starts_with(kRawPrefix)) continue;
    raw.emplace_back(item.name.substr(std::string(kRawPrefix).size()), item.tensor);
  }
  load_state(network(), raw, source);
}

void Replica::restore_scaler(const Checkpoint& checkpoint, const std::string& source) {
  if (communicator_.is_root()) scaler_->load_state(checkpoint.optimizer, source);
  const NamedTensors state = scaler_->state();
  if (communicator_.size() > 1) {
    for (const auto& item : state) broadcast_tensor(item.tensor);
  }
  scaler_->load_state(state, source);
}

void Replica::restore(const Checkpoint& checkpoint, std::int64_t updates_done,
                      const std::string& source) {
  auto optimizer_state = optimizer_->state();
  if (communicator_.is_root()) {
    load(checkpoint, source);
    optimizer_state = checkpoint.optimizer;
  }
  if (scaler_) restore_scaler(checkpoint, source);
  const std::int64_t skipped = scaler_ ? scaler_->skipped_count() : 0;
  optimizer_->load_state(optimizer_state, updates_done - skipped, source);
  if (communicator_.size() == 1) return;
  for (const auto& [name, tensor] : state_of(network())) broadcast_tensor(tensor);
  for (const auto& item : optimizer_->state()) broadcast_tensor(item.tensor);
  if (!average_) return;
  for (const auto& [name, tensor] : average_->state()) broadcast_tensor(tensor);
}

}  // namespace retina
