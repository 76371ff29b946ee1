#include "shared/base/error.h"
#include "train/step/cuda_graph.h"

namespace retina {

std::unique_ptr<CudaGraphRecorder> make_cuda_graph_recorder(c10::Device) {
  throw Error(ErrorKind::kUnavailable, "this program was built without CUDA",
              "build it with FLAVOUR=cuda");
}

}  // namespace retina
