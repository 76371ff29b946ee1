#include "train/reduce/gradient_buckets.h"

#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cmath>

#include "shared/base/cat.h"
#include "shared/base/error.h"

namespace retina {
namespace {

ElementType element_type(const at::Tensor& tensor) {
  RETINA_CHECK(tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble);
  return tensor.scalar_type() == at::kFloat ? ElementType::kFloat32 : ElementType::kFloat64;
}

void sum_over_ranks(Communicator& communicator, at::Tensor bucket) {
  const at::Tensor host = bucket.cpu();  // the bucket itself on the CPU
  communicator.all_reduce(host.data_ptr(), static_cast<std::size_t>(host.numel()),
                          element_type(host), ReduceOp::kSum);
  if (!host.is_same(bucket)) bucket.copy_(host);
}

}  // namespace

// Tells that autograd has added a parameter's gradient of this backward, all uses of it together.
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

GradientBuckets::GradientBuckets(const std::vector<TrainableParameter>& parameters,
                                 const BucketOptions& options, Communicator& communicator)
    : communicator_(communicator), parameters_(parameters), overlap_(options.overlap) {
  RETINA_CHECK(!parameters.empty());
  std::vector<BucketParameter> list;
  for (const auto& parameter : parameters) {
    RETINA_CHECK(parameter.value.is_non_overlapping_and_dense(), parameter.name);
    list.push_back({parameter.name, static_cast<std::size_t>(parameter.value.numel())});
  }
  const auto element_bytes = static_cast<std::size_t>(parameters.front().value.element_size());
  plan_ = plan_buckets(list, options.bucket_bytes / element_bytes);

  const auto hash = static_cast<std::int64_t>(plan_.layout_hash);
  auto root_hash = hash;
  communicator.broadcast(&root_hash, 1, ElementType::kInt64, 0);
  if (communicator.all_reduce_max(hash == root_hash ? 0 : 1) != 0) {
    throw Error(ErrorKind::kConfig, "gradient layouts differ between ranks",
                "start all ranks with the same program and the same options");
  }

  for (const std::size_t count : plan_.bucket_counts) {
    buckets_.push_back(
        at::zeros({static_cast<std::int64_t>(count)}, parameters.front().value.options()));
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const BucketSlot& slot = plan_.slots[i];
    const at::Tensor& value = parameters[i].value;
    value.mutable_grad() = buckets_[slot.bucket].as_strided(value.sizes(), value.strides(),
                                                            static_cast<std::int64_t>(slot.offset));
  }
  has_arrived_.resize(parameters.size());
  if (communicator.size() > 1) queue_ = std::make_unique<CollectiveQueue>(communicator);
  add_hooks();
}

GradientBuckets::~GradientBuckets() {
  for (const auto& parameter : parameters_) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameter.value, nullptr);
  }
}

void GradientBuckets::add_hooks() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i].value,
                                                   std::make_unique<Hook>(*this, i));
  }
}

void GradientBuckets::zero() {
  for (auto& bucket : buckets_) bucket.zero_();
}

void GradientBuckets::expect_last_pass() {
  const std::lock_guard lock(mutex_);
  armed_ = true;
  next_bucket_ = 0;
  std::fill(has_arrived_.begin(), has_arrived_.end(), false);
  missing_count_.assign(buckets_.size(), 0);
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
  while (next_bucket_ < buckets_.size() && missing_count_[next_bucket_] == 0) {
    launch(next_bucket_++);
  }
}

void GradientBuckets::launch(std::size_t bucket) {
  if (!queue_) return;
  queue_->push([tensor = buckets_[bucket], bucket](Communicator& communicator) {
    communicator.label(cat("bucket ", bucket));
    sum_over_ranks(communicator, tensor);
  });
}

void GradientBuckets::all_reduce() {
  {
    const std::lock_guard lock(mutex_);
    if (!armed_) next_bucket_ = 0;
    while (next_bucket_ < buckets_.size()) launch(next_bucket_++);
    if (armed_) {
      unreached_.clear();
      for (std::size_t i = 0; i < parameters_.size(); ++i) {
        if (!has_arrived_[i]) unreached_.push_back(parameters_[i].name);
      }
    }
    armed_ = false;
  }
  if (queue_) queue_->wait();
}

double GradientBuckets::norm() const {
  double sum = 0;
  for (const auto& bucket : buckets_) {
    const double part =
        at::linalg_vector_norm(bucket, 2, std::nullopt, false, at::kDouble).item<double>();
    sum += part * part;
  }
  return std::sqrt(sum);
}

void GradientBuckets::scale(double factor) {
  for (auto& bucket : buckets_) bucket.mul_(factor);
}

void clip_to_norm(GradientBuckets& buckets, double norm, double max_norm) {
  const double factor = max_norm / (norm + 1e-6);
  if (factor < 1) buckets.scale(factor);
}

}  // namespace retina
