// Forward and backward of a training step as CUDA graphs, one each for every size of images that
// returns: two launches in the place of hundreds, where a GPU is done sooner than the host is. As
// PyTorch's torch.cuda.make_graphed_callables; the loss between them, whose grids depend on the
// number of boxes, is launched as ever. The operations, their order and so all bits are those of
// the passes without graphs.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "shared/model/heads.h"
#include "train/step/cuda_graph.h"

namespace retina {

using NetworkForward = std::function<HeadOutputs(const at::Tensor& images)>;

// Both passes for images of one size. All tensors that it returns are its own, and are overwritten
// by its next call of that function.
class NetworkGraph {
 public:
  // `images` is of that size, type and layout. Nothing is executed: no statistic moves, and the
  // gradients of `parameters`, which must keep their memory, stay as they are. Throws what
  // recording throws.
  NetworkGraph(const at::Tensor& images, const NetworkForward& forward,
               const std::vector<at::Tensor>& parameters, CudaGraphRecorder& recorder);

  const HeadOutputs& forward(const at::Tensor& images);
  // The parameters' gradients for those of the outputs, logits before deltas; undefined for
  // parameters that have none. After `forward`, once.
  const std::vector<at::Tensor>& backward(const std::vector<at::Tensor>& output_gradients);

 private:
  at::Tensor images_;
  HeadOutputs outputs_;
  std::vector<at::Tensor> output_gradients_, gradients_;
  std::unique_ptr<CudaGraph> forward_, backward_;
};

class NetworkGraphs {
 public:
  // A size is recorded when it comes for the fourth time: until then its kernels are chosen and
  // loaded, which cannot be recorded, and many sizes never return.
  static constexpr int kPassesBefore = 3;
  // All graphs share the memory of activations; each has outputs and gradients of its own.
  static constexpr int kMostGraphs = 16;

  NetworkGraphs(std::vector<at::Tensor> parameters, c10::Device device);

  // The graph for images like these, or null: they have not come often enough, there are enough
  // graphs, or less memory of the device is unused than tensors have ever held, so that the
  // activations might not fit twice. Where recording fails, a warning says why, and there are no
  // graphs from then on.
  NetworkGraph* of(const at::Tensor& images, const NetworkForward& forward);

  // Frees their memory; sizes are counted anew.
  void clear() { sizes_.clear(); }

 private:
  struct Size {
    int passes = 0;
    std::unique_ptr<NetworkGraph> graph = {};
  };
  bool may_record() const;

  std::vector<at::Tensor> parameters_;
  c10::Device device_;
  std::unique_ptr<CudaGraphRecorder> recorder_;  // null: recording has failed
  std::map<std::vector<std::int64_t>, Size> sizes_;
};

}  // namespace retina
