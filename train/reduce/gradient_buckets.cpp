#include "train/reduce/gradient_buckets.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/measure.h"

namespace retina {
namespace {

std::vector<BucketParameter> bucket_parameters(const NamedTensors& parameters) {
  std::vector<BucketParameter> list;
  for (const auto& [name, value] : parameters) {
    RETINA_CHECK(value.is_non_overlapping_and_dense(), name);
    list.push_back({.name = name,
                    .count = static_cast<std::size_t>(value.numel()),
                    .layout = cat(value.sizes(), " strides ", value.strides(), " ",
                                  at::toString(value.scalar_type()))});
  }
  return list;
}

// Sums in f64, without a copy in f64. Pieces have one size and each piece one order, so that the
// bits do not depend on the number of threads.
double sum_of_squares(const float* values, std::int64_t count) {
  constexpr std::int64_t kPiece = 1 << 16;
  constexpr std::int64_t kLanes = 8;
  const auto of_piece = [&](std::int64_t piece) {
    const float* const first = values + piece * kPiece;
    const std::int64_t size = std::min(kPiece, count - piece * kPiece);
    std::array<double, kLanes> lanes{};
    std::int64_t i = 0;
    for (; i + kLanes <= size; i += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        const double value = first[i + lane];
        lanes[static_cast<std::size_t>(lane)] += value * value;
      }
    }
    double sum = std::accumulate(lanes.begin(), lanes.end(), 0.0);
    for (; i < size; ++i) sum += static_cast<double>(first[i]) * first[i];
    return sum;
  };
  std::vector<double> sums(static_cast<std::size_t>((count + kPiece - 1) / kPiece));
  at::parallel_for(0, static_cast<std::int64_t>(sums.size()), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t piece = begin; piece < end; ++piece) {
                       sums[static_cast<std::size_t>(piece)] = of_piece(piece);
                     }
                   });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace

// Reports that autograd has added a parameter's gradient of this backward, all uses of it together.
class GradientBuckets::Hook : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(GradientBuckets& buckets, std::size_t parameter)
      : buckets_(buckets), parameter_(parameter) {}
  void operator()(const torch::autograd::Variable& /*tensor*/) override {
    buckets_.arrived(parameter_);
  }

 private:
  GradientBuckets& buckets_;
  std::size_t parameter_;
};

GradientBuckets::GradientBuckets(const NamedTensors& parameters, const BucketOptions& options,
                                 Communicator& communicator, at::Tensor scale)
    : ranks_(communicator.size()),
      wire_(options.wire),
      size_bytes_(choose_buckets(options, communicator)),
      parameters_(parameters),
      scale_(std::move(scale)),
      overlap_(options.overlap) {
  RETINA_CHECK(!parameters.empty());
  const std::vector<BucketParameter> list = bucket_parameters(parameters);
  const std::size_t wire_bytes = element_size_bytes(wire_.type);
  plan_ = plan_buckets(
      list, {.most = size_bytes_.most / wire_bytes, .edge = size_bytes_.edge / wire_bytes});
  check_same_layout(list, plan_, communicator);

  has_arrived_.resize(parameters.size());
  if (communicator.size() > 1) {
    make_buckets();
    transport_ = make_transport(communicator, {.wire = wire_,
                                               .device = parameters.front().tensor.device(),
                                               .bucket_count = plan_.bucket_counts.size()});
    queue_ = std::make_unique<CollectiveQueue>(communicator);
  }
  add_hooks();
}

void GradientBuckets::make_buckets() {
  for (const std::size_t count : plan_.bucket_counts) {
    buckets_.push_back(
        at::zeros({static_cast<std::int64_t>(count)}, parameters_.front().tensor.options()));
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const BucketSlot& slot = plan_.slots[i];
    const at::Tensor& value = parameters_[i].tensor;
    value.mutable_grad() = buckets_[slot.bucket].as_strided(value.sizes(), value.strides(),
                                                            static_cast<std::int64_t>(slot.offset));
  }
}

std::vector<at::Tensor> GradientBuckets::gradients() const {
  std::vector<at::Tensor> list;
  list.reserve(parameters_.size());
  for (const NamedTensor& parameter : parameters_) list.push_back(parameter.tensor.grad());
  return list;
}

GradientBuckets::~GradientBuckets() {
  for (const auto& parameter : parameters_) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameter.tensor, nullptr);
  }
}

void GradientBuckets::add_hooks() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i].tensor,
                                                   std::make_unique<Hook>(*this, i));
  }
}

void GradientBuckets::zero() {
  for (auto& bucket : buckets_) bucket.zero_();
  if (!buckets_.empty()) return;
  for (const NamedTensor& parameter : parameters_) parameter.tensor.mutable_grad().reset();
}

void GradientBuckets::expect_last_backward() {
  const std::lock_guard lock(mutex_);
  armed_ = true;
  next_bucket_ = 0;
  cost_ = {};
  std::fill(has_arrived_.begin(), has_arrived_.end(), false);
  missing_count_.assign(plan_.bucket_counts.size(), 0);
  for (const BucketSlot& slot : plan_.slots) ++missing_count_[slot.bucket];
}

void GradientBuckets::arrived(std::size_t parameter) {
  const std::lock_guard lock(mutex_);
  if (!armed_ || has_arrived_[parameter]) return;
  has_arrived_[parameter] = true;
  --missing_count_[plan_.slots[parameter].bucket];
  if (overlap_) launch_full_ones();
}

void GradientBuckets::launch_full_ones() {
  while (next_bucket_ < missing_count_.size() && missing_count_[next_bucket_] == 0) {
    launch(next_bucket_++);
  }
}

void GradientBuckets::launch(std::size_t bucket) {
  if (!queue_) {
    if (bucket == 0) first_sum_seconds_ = now_seconds();
    return;
  }
  if (scale_.defined()) buckets_[bucket].div_(scale_);
  transport_->filled(bucket);
  queue_->push([this, bucket](Communicator&) {
    transport_->wait_until_filled(bucket);
    if (bucket == 0) first_sum_seconds_ = now_seconds();
    const OperationStats before = transport_->traffic();
    transport_->sum(buckets_[bucket], bucket);
    const OperationStats after = transport_->traffic();
    cost_.traffic.calls += after.calls - before.calls;
    cost_.traffic.bytes += after.bytes - before.bytes;
    cost_.traffic.seconds += after.seconds - before.seconds;
  });
}

void GradientBuckets::all_reduce() {
  const double backward_end = now_seconds();
  {
    const std::lock_guard lock(mutex_);
    // Without an armed backward no bucket has left yet.
    if (!armed_) {
      next_bucket_ = 0;
      cost_ = {};
    }
    while (next_bucket_ < plan_.bucket_counts.size()) launch(next_bucket_++);
    armed_ = false;
  }
  // Several ranks wait for the sums; one rank only has to fill in and unscale its gradients.
  if (queue_) {
    queue_->wait();
  } else {
    for (const NamedTensor& parameter : parameters_) {
      at::Tensor& gradient = parameter.tensor.mutable_grad();
      if (!gradient.defined()) gradient = at::zeros_like(parameter.tensor.detach());
    }
    const at::NoGradGuard no_grad;
    if (scale_.defined()) at::_foreach_div_(gradients(), scale_);
  }
  cost_.overlap_seconds = std::max(0.0, backward_end - first_sum_seconds_);
}

at::Tensor GradientBuckets::norm() const {
  // Sums by parameter, so that no bit depends on the buckets.
  double squares = 0;
  std::vector<at::Tensor> others;
  for (const at::Tensor& gradient : gradients()) {
    if (gradient.is_cpu() && gradient.scalar_type() == at::kFloat) {
      squares += sum_of_squares(gradient.const_data_ptr<float>(), gradient.numel());
    } else {
      others.push_back(gradient);
    }
  }
  if (others.empty()) return at::scalar_tensor(std::sqrt(squares), at::kDouble);
  RETINA_CHECK(squares == 0, "gradients of several types");
  return at::linalg_vector_norm(at::stack(at::_foreach_norm(others, 2, at::kDouble)));
}

void QueuedRankSum::sum(std::span<double> values, const std::string& what) {
  const auto began = std::chrono::steady_clock::now();
  queue_.call([&](Communicator& communicator) {
    communicator.label(what);
    communicator.all_reduce(values.data(), values.size(), ElementType::kFloat64, ReduceOp::kSum);
  });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  wait_seconds_ += took.count();
}

}  // namespace retina
