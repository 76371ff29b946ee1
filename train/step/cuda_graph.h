// A GPU's work between two points of the program, recorded once and launched as often as wanted in
// one call (CUDA graphs, by LibTorch's at::cuda::CUDAGraph).
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>

namespace retina {

class CudaGraph {
 public:
  virtual ~CudaGraph() = default;
  // Launches it on the current stream: the same operations on the same memory.
  virtual void replay() = 0;
};

class CudaGraphRecorder {
 public:
  virtual ~CudaGraphRecorder() = default;
  // The graph of what `body` launches on the current stream, autograd's threads included; nothing
  // of it is executed, so that memory which `body` allocates holds no values before a replay. That
  // memory is the graph's, and may be that of the recorder's other graphs, too: what a graph leaves
  // in tensors that live on is kept, all else only until the next replay of a graph that was
  // recorded after it was freed. `body` must not wait for the GPU nor copy from or to the host.
  // Throws what `body` throws, and c10::Error where CUDA refuses; nothing is recorded then.
  virtual std::unique_ptr<CudaGraph> record(const std::function<void()>& body) = 0;
};

// Throws Error{kUnavailable} in the CPU flavour.
std::unique_ptr<CudaGraphRecorder> make_cuda_graph_recorder(c10::Device device);

}  // namespace retina
