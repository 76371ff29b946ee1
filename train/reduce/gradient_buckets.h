// Gradients as views of flat buckets, summed over ranks with one all-reduce a bucket.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "shared/comm/communicator.h"
#include "train/optim/optimizer.h"
#include "train/reduce/bucket_plan.h"

namespace retina {

struct BucketOptions {
  std::size_t bucket_bytes = std::size_t{25} << 20;  // as DDP's: large enough for bandwidth
};

class GradientBuckets {
 public:
  // Gives every parameter a zero gradient that is a view of a bucket and has the parameter's own
  // strides; autograd then accumulates in place. Collective: throws Error{kConfig} when ranks'
  // layouts differ. `communicator` must outlive this.
  GradientBuckets(const std::vector<TrainableParameter>& parameters, const BucketOptions& options,
                  Communicator& communicator);

  // Before the first backward of a step.
  void zero();

  // After the last backward of a step: every gradient becomes its sum over ranks. Buckets on a GPU
  // travel through host memory. Collective.
  void all_reduce();

  // L2 norm of all gradients together, summed in f64.
  double norm() const;

  // Multiplies all gradients.
  void scale(double factor);

  const BucketPlan& plan() const { return plan_; }

 private:
  Communicator& communicator_;
  BucketPlan plan_;
  std::vector<at::Tensor> buckets_;  // flat, one dtype
};

// Scales the gradients so that their norm is at most `max_norm` (Pascanu et al. 2013; the factor is
// max_norm / (norm + 1e-6) as in torch.nn.utils.clip_grad_norm_). `norm` is buckets.norm().
void clip_to_norm(GradientBuckets& buckets, double norm, double max_norm);

}  // namespace retina
