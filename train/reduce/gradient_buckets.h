// Gradients as views of flat buckets, summed over ranks with one all-reduce a bucket, which starts
// as soon as backward has filled it (Li et al. 2020, "PyTorch Distributed", section 3.2). A single
// rank has no buckets: it takes over the tensors that backward made.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shared/comm/comm_stats.h"
#include "shared/comm/communicator.h"
#include "shared/model/sync_norm.h"
#include "shared/ops/named_tensor.h"
#include "train/reduce/bucket_plan.h"
#include "train/reduce/collective_queue.h"
#include "train/reduce/gradient_transport.h"

namespace retina {

// The cost of summing the gradients of one step, on this rank.
struct ReduceCost {
  // The buckets' collectives, one after the other: bytes of this rank's buffers as they travel, and
  // the time from each call to its return, including the wait for slower ranks. Bandwidths by
  // comm_stats.h.
  OperationStats traffic = {};
  // Seconds from the start of the first bucket's sum to the end of backward: the traffic in it
  // costs no time. On one rank, since the first bucket was full.
  double overlap_seconds = 0;
};

class GradientBuckets {
 public:
  // `parameters` are in the order of forward: the first bucket holds the last of them. With several
  // ranks, gives each a zero gradient that is a view of a bucket and has the parameter's own
  // strides; autograd then accumulates in place. Collective: throws Error{kConfig} when ranks'
  // layouts differ (check_same_layout). `communicator` must outlive this. `scale` is the loss
  // scale, a scalar f32 on the gradients' device: every gradient is divided by it before it leaves
  // for other ranks or, on one rank, in `all_reduce`. Undefined: 1.
  GradientBuckets(const NamedTensors& parameters, const BucketOptions& options,
                  Communicator& communicator, at::Tensor scale = {});
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  // Clears the gradients; called before the first backward of a step. On one rank no parameter has
  // a gradient from here to that backward.
  void zero();

  // Announces the last backward of a step: from now on a bucket leaves when its last gradient is
  // there. The communicator belongs to the buckets until `all_reduce` returns. Earlier backwards of
  // the step, which accumulate, send nothing.
  void expect_last_backward();

  // Replaces every gradient by its sum over ranks, including those that the last backward of the
  // step did not reach. Collective. With `wire.ordered` the bits do not depend on the plan, nor do
  // those of `norm`. On one rank, a gradient that no backward reached becomes zero.
  void all_reduce();

  // Returns the cost of the last `all_reduce`.
  const ReduceCost& cost() const { return cost_; }

  // Returns the L2 norm of all gradients together, summed in f64: a scalar f64 on their device,
  // without waiting for it.
  at::Tensor norm() const;

  const BucketPlan& plan() const { return plan_; }
  const BucketSize& size_bytes() const { return size_bytes_; }  // on the wire
  const WireOptions& wire() const { return wire_; }
  int ranks() const { return ranks_; }
  // Returns how many buckets so far held values too large for the 16-bit wire and travelled again
  // in f32.
  std::int64_t repeated_count() const { return transport_ ? transport_->repeated_count() : 0; }

  // Returns the queue for other collectives between `expect_last_backward` and `all_reduce`; null
  // on one rank.
  CollectiveQueue* queue() { return queue_.get(); }

 private:
  class Hook;
  void make_buckets();
  std::vector<at::Tensor> gradients() const;  // in the order of the parameters
  void add_hooks();
  void arrived(std::size_t parameter);
  void launch_full_ones();
  void launch(std::size_t bucket);

  int ranks_ = 1;
  WireOptions wire_;
  BucketSize size_bytes_;
  BucketPlan plan_;
  NamedTensors parameters_;
  at::Tensor scale_;
  std::vector<at::Tensor> buckets_;  // flat, one dtype; empty on one rank
  bool overlap_ = false;

  // State of the step in progress. Hooks may run on autograd's device threads.
  std::mutex mutex_;
  bool armed_ = false;                      // the last backward of the step is under way
  std::vector<bool> has_arrived_;           // by parameter
  std::vector<std::size_t> missing_count_;  // gradients that each bucket waits for
  std::size_t next_bucket_ = 0;             // buckets leave in order, on every rank
  // Written by the queue's thread until the queue is waited for.
  double first_sum_seconds_ = 0;
  ReduceCost cost_;

  // Null on one rank.
  std::unique_ptr<GradientTransport> transport_;
  std::unique_ptr<CollectiveQueue> queue_;
};

// Sums that a layer needs in the middle of forward and backward (--sync-bn). They run on the thread
// of the gradient buckets, which alone may use the communicator while buckets travel.
class QueuedRankSum : public RankSum {
 public:
  // `queue` must outlive this.
  explicit QueuedRankSum(CollectiveQueue& queue) : queue_(queue) {}

  // Sums after the buckets that are queued already, without waiting for later ones. Buckets leave
  // at fixed places of backward, so the order is the same on all ranks.
  void sum(std::span<double> values, const std::string& what) override;

  // Returns the time spent waiting in `sum` since the last call.
  double take_wait_seconds() { return std::exchange(wait_seconds_, 0.0); }

 private:
  CollectiveQueue& queue_;
  double wait_seconds_ = 0;
};

}  // namespace retina
