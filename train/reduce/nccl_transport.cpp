// Sums buckets from GPU to GPU, on a stream of NCCL's own, each once the event that backward
// recorded after it has completed.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/where.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <chrono>
#include <thread>
#include <vector>

#include "shared/base/error.h"
#include "train/reduce/gradient_transport.h"
#include "train/reduce/nccl_communicator.h"

namespace retina {
namespace {

class NcclTransport : public GradientTransport {
 public:
  NcclTransport(Communicator& host, const TransportOptions& options)
      : options_(options),
        nccl_(make_nccl_communicator(host, options.device.index())),
        stream_(c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(nccl_->stream()),
                                                 options.device.index())),
        filled_(options.bucket_count) {
    for (auto& event : filled_) {
      check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
    }
  }
  ~NcclTransport() override {
    for (auto& event : filled_) cudaEventDestroy(event);
  }
  NcclTransport(const NcclTransport&) = delete;
  NcclTransport& operator=(const NcclTransport&) = delete;

  void filled(std::size_t number) override {
    const c10::cuda::CUDAGuard guard(options_.device);  // the default stream is the current GPU's
    const auto compute = c10::cuda::getCurrentCUDAStream(options_.device.index());
    check_cuda(cudaEventRecord(filled_[number], compute), "cudaEventRecord");
  }

  // Waits on the host, not on the stream: while the stream waited, this rank would seem to be in
  // the collective already, to the watch and to the traffic's time.
  void wait_until_filled(std::size_t number) override {
    const c10::cuda::CUDAGuard guard(options_.device);  // a call may start the current GPU
    while (true) {
      const cudaError_t code = cudaEventQuery(filled_[number]);
      if (code == cudaSuccess) return;
      if (code != cudaErrorNotReady) check_cuda(code, "cudaEventQuery");
      std::this_thread::sleep_for(kDevicePoll);
    }
  }

  // Returns when the sum is there, so that any stream may use it next.
  void sum(at::Tensor bucket, std::size_t number) override {
    const at::NoGradGuard no_grad;
    const c10::cuda::CUDAStreamGuard guard(stream_);
    const bool is_wide = options_.wire.type == ElementType::kFloat32;
    if (is_wide || bucket.scalar_type() != at::kFloat) {
      reduce(bucket, cat("bucket ", number));
    } else {
      sum_16_bit(bucket, number);
    }
    stream_.synchronize();
  }

  OperationStats traffic() const override { return nccl_->stats().all_reduce; }

  std::int64_t repeated_count() const override { return repeated_count_; }

 private:
  void reduce(const at::Tensor& values, const std::string& name) {
    const ElementType type = values.scalar_type() == at::kHalf       ? ElementType::kFloat16
                             : values.scalar_type() == at::kBFloat16 ? ElementType::kBFloat16
                             : values.scalar_type() == at::kFloat    ? ElementType::kFloat32
                                                                     : ElementType::kFloat64;
    nccl_->label(name);
    nccl_->all_reduce(values.data_ptr(), static_cast<std::size_t>(values.numel()), type,
                      ReduceOp::kSum);
  }

  // Does on the device what WireSum::sum does.
  void sum_16_bit(at::Tensor& bucket, std::size_t number) {
    const bool is_half = options_.wire.type == ElementType::kFloat16;
    const double scale = is_half ? kFloat16WireScale : 1;
    const at::Tensor wire = is_half ? bucket.mul(scale).to(at::kHalf) : bucket.to(at::kBFloat16);
    reduce(wire, cat("bucket ", number));
    const at::Tensor finite = at::isfinite(wire);
    const at::Tensor sums = wire.to(at::kFloat).mul_(1 / scale);
    if (finite.all().item<bool>()) {
      bucket.copy_(sums);
      return;
    }
    reduce(bucket, cat("bucket ", number, " in fp32"));
    // false where the gradient itself is infinite or NaN
    const bool helped = at::isfinite(bucket).logical_and_(finite.logical_not()).any().item<bool>();
    if (helped) ++repeated_count_;
    bucket.copy_(at::where(finite, sums, bucket));
  }

  const TransportOptions options_;
  const std::unique_ptr<NcclCommunicator> nccl_;
  const c10::cuda::CUDAStream stream_;
  std::vector<cudaEvent_t> filled_;  // indexed by bucket
  std::int64_t repeated_count_ = 0;
};

}  // namespace

std::unique_ptr<GradientTransport> make_nccl_transport(Communicator& communicator,
                                                       const TransportOptions& options) {
  return std::make_unique<NcclTransport>(communicator, options);
}

}  // namespace retina
