// What train/step/cuda_graph_cuda.cpp uses of LibTorch's CUDA half, in its header's place, for the
// fake device. Names and meanings are LibTorch's.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <memory>

#include "tests/gpu/fake_device/graphs.h"

enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal };

namespace at::cuda {

inline c10::MempoolId_t graph_pool_handle() {
  return {0, static_cast<c10::CaptureId_t>(retina::fake_device::new_pool())};
}

class CUDAGraph {
 public:
  void capture_begin(c10::MempoolId_t pool, cudaStreamCaptureMode) {
    retina::fake_device::begin_capture(static_cast<std::int64_t>(pool.second));
  }
  void capture_end() { graph_ = retina::fake_device::end_capture(); }
  void replay() { retina::fake_device::launch(*graph_); }

 private:
  std::shared_ptr<const retina::fake_device::Graph> graph_;
};

}  // namespace at::cuda
