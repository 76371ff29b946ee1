// What train/reduce/nccl_transport.cpp uses of LibTorch's CUDA half, in its header's place, for the
// fake device. Names and meanings are LibTorch's.
#pragma once

#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <cuda_runtime_api.h>

struct FakeStream {
  c10::Stream stream;
};

namespace c10::cuda {

class CUDAStream {
 public:
  explicit CUDAStream(c10::Stream stream) : fake_{stream} {}
  void synchronize() const { fake_.stream.synchronize(); }
  c10::Stream unwrap() const { return fake_.stream; }
  // Lives as long as this.
  operator cudaStream_t() const { return &fake_; }

 private:
  mutable FakeStream fake_;
};

inline CUDAStream getStreamFromExternal(cudaStream_t stream, c10::DeviceIndex) {
  return CUDAStream(stream->stream);
}
inline CUDAStream getCurrentCUDAStream(c10::DeviceIndex index) {
  const c10::Device device(c10::kCUDA, index);
  return CUDAStream(c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(device));
}

}  // namespace c10::cuda
