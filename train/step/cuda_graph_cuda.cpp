#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include "train/step/cuda_graph.h"

namespace retina {
namespace {

class Graph : public CudaGraph {
 public:
  void replay() override { graph_.replay(); }
  at::cuda::CUDAGraph& graph() { return graph_; }

 private:
  at::cuda::CUDAGraph graph_;
};

// Runs what may fail because something else has failed before.
template <class Call>
void attempt(const Call& call) {
  try {
    call();
  } catch (const c10::Error&) {
  }
}

class Recorder : public CudaGraphRecorder {
 public:
  explicit Recorder(c10::Device device)
      : device_(device),
        stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())),
        pool_(at::cuda::graph_pool_handle()) {}

  std::unique_ptr<CudaGraph> record(const std::function<void()>& body) override {
    auto graph = std::make_unique<Graph>();
    const c10::cuda::CUDAStreamGuard on_stream(stream_);  // the default one cannot be recorded
    try {
      // Other threads, which decode, may allocate page-locked memory meanwhile.
      graph->graph().capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
      body();
      graph->graph().capture_end();
    } catch (...) {
      abandon(graph->graph());
      throw;
    }
    return graph;
  }

 private:
  // Where CUDA refuses, LibTorch's allocators are left as within a capture.
  void abandon(at::cuda::CUDAGraph& graph) const {
    attempt([&] { graph.capture_end(); });
    attempt([&] {
      c10::cuda::CUDACachingAllocator::endAllocateToPool(device_.index(), pool_);
      c10::cuda::CUDACachingAllocator::releasePool(device_.index(), pool_);
    });
    attempt([&] {
      at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(pool_);
      at::getHostAllocator(at::kCUDA)->release_pool(pool_);
    });
  }

  c10::Device device_;
  c10::cuda::CUDAStream stream_;
  c10::MempoolId_t pool_;
};

}  // namespace

std::unique_ptr<CudaGraphRecorder> make_cuda_graph_recorder(c10::Device device) {
  return std::make_unique<Recorder>(device);
}

}  // namespace retina
