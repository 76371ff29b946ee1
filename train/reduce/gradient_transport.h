// Sums a full bucket over ranks: through host memory, or from GPU to GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "shared/comm/comm_stats.h"
#include "shared/comm/communicator.h"
#include "train/reduce/wire.h"

namespace retina {

class GradientTransport {
 public:
  virtual ~GradientTransport() = default;
  // Marks that bucket number `number` holds its gradients as soon as this thread's work on the
  // device is done. Called by the thread that filled it, before `sum`.
  virtual void filled(std::size_t /*number*/) {}
  // Waits until then. Called by the thread that calls `sum`, before it.
  virtual void wait_until_filled(std::size_t /*number*/) {}
  // Replaces `bucket` [count] f32 or f64 by its sum over ranks; "bucket `number`" labels the
  // collective. Called by the thread of a CollectiveQueue.
  virtual void sum(at::Tensor bucket, std::size_t number) = 0;
  // Returns the statistics of all sums so far.
  virtual OperationStats traffic() const = 0;
  // Returns how many sums had to be made again in f32 (WireSum).
  virtual std::int64_t repeated_count() const = 0;
};

struct TransportOptions {
  WireOptions wire = {};
  c10::Device device = c10::kCPU;  // device of the buckets
  std::size_t bucket_count = 0;
};

// Makes a transport by NCCL for buckets on a GPU that need not be added in rank order; else through
// the host's memory, to which buckets on a GPU are copied. `communicator` must outlive the result.
// Collective.
std::unique_ptr<GradientTransport> make_transport(Communicator& communicator,
                                                  const TransportOptions& options);

// Returns null in a build without CUDA.
std::unique_ptr<GradientTransport> make_nccl_transport(Communicator& communicator,
                                                       const TransportOptions& options);

}  // namespace retina
