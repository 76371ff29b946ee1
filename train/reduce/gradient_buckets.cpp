#include "train/reduce/gradient_buckets.h"

#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "shared/base/error.h"

namespace retina {
namespace {

ElementType element_type(const at::Tensor& tensor) {
  RETINA_CHECK(tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble);
  return tensor.scalar_type() == at::kFloat ? ElementType::kFloat32 : ElementType::kFloat64;
}

}  // namespace

GradientBuckets::GradientBuckets(const std::vector<TrainableParameter>& parameters,
                                 const BucketOptions& options, Communicator& communicator)
    : communicator_(communicator) {
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
}

void GradientBuckets::zero() {
  for (auto& bucket : buckets_) bucket.zero_();
}

void GradientBuckets::all_reduce() {
  if (communicator_.size() == 1) return;
  for (auto& bucket : buckets_) {
    const at::Tensor host = bucket.cpu();  // the bucket itself on the CPU
    communicator_.all_reduce(host.data_ptr(), static_cast<std::size_t>(host.numel()),
                             element_type(host), ReduceOp::kSum);
    if (!host.is_same(bucket)) bucket.copy_(host);
  }
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
