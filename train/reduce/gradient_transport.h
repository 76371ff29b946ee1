// How a full bucket gets its sum over ranks: through host memory, or from GPU to GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "shared/comm/communicator.h"
#include "shared/comm/wire.h"

namespace retina {

// The thread of a CollectiveQueue calls it.
class GradientTransport {
 public:
  virtual ~GradientTransport() = default;
  // In place: `bucket` [count] f32 or f64 becomes its sum over ranks. `name` labels the collective.
  virtual void sum(at::Tensor bucket, const std::string& name) = 0;
  // How many sums had to be made again in f32 (WireSum).
  virtual std::int64_t repeated_count() const = 0;
};

// Buckets on a GPU are copied to the host and back. `communicator` must outlive the result.
std::unique_ptr<GradientTransport> make_host_transport(Communicator& communicator,
                                                       const WireOptions& wire);

}  // namespace retina
