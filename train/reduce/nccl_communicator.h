// Sums between GPUs by NCCL, which runs the ring on the devices. It is used beside a host
// communicator, over which it finds the other ranks, not instead of it.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <memory>

#include "shared/comm/communicator.h"

namespace retina {

// Between two looks at whether the device has finished.
inline constexpr std::chrono::microseconds kDevicePoll(20);

// Throws Error{kUnavailable} naming the call unless it succeeded.
void check_cuda(cudaError_t code, const char* call);

// `all_reduce` and `broadcast` take device memory of this rank's GPU, and run on `stream()` after
// the work queued there before. They return when the result is there: the calling thread polls, so
// that a failed connection becomes Error{kRankFailure} (after any error the communicator is
// aborted) and a watch can end a job that waits. gather and barrier are the host's;
// all_reduce_ordered is not available. Calls are reported to the host communicator's activity.
class NcclCommunicator : public Communicator {
 public:
  // Returns a cudaStream_t of this communicator alone.
  virtual void* stream() const = 0;
};

// Connects the ranks over `host` (which must outlive the result); `device` is this rank's GPU. Uses
// the ring algorithm, unless NCCL_ALGO says otherwise. Only in a build with CUDA. Collective.
// Throws Error{kUnavailable} when NCCL cannot start or connect the ranks within the limit.
std::unique_ptr<NcclCommunicator> make_nccl_communicator(Communicator& host, int device,
                                                         double start_limit_seconds = 180);

}  // namespace retina
