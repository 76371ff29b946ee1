// How a full bucket gets its sum over ranks: through host memory, or from GPU to GPU.
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
  // Bucket number `number` holds its gradients as soon as what this thread has queued on the
  // device is done. The thread that filled it calls this, before `sum`.
  virtual void filled(std::size_t /*number*/) {}
  // Returns when it does. As `sum`, which follows.
  virtual void wait_until_filled(std::size_t /*number*/) {}
  // In place: `bucket` [count] f32 or f64 becomes its sum over ranks; "bucket `number`" labels the
  // collective. The thread of a CollectiveQueue calls it.
  virtual void sum(at::Tensor bucket, std::size_t number) = 0;
  // Of all sums so far.
  virtual OperationStats traffic() const = 0;
  // How many sums had to be made again in f32 (WireSum).
  virtual std::int64_t repeated_count() const = 0;
};

struct TransportOptions {
  WireOptions wire = {};
  c10::Device device = c10::kCPU;  // of the buckets
  std::size_t bucket_count = 0;
};

// By NCCL for buckets on a GPU that need not be added in rank order; else through the host's
// memory, to which buckets on a GPU are copied. `communicator` must outlive the result. Collective.
std::unique_ptr<GradientTransport> make_transport(Communicator& communicator,
                                                  const TransportOptions& options);

// Null in a build without CUDA.
std::unique_ptr<GradientTransport> make_nccl_transport(Communicator& communicator,
                                                       const TransportOptions& options);

}  // namespace retina
