#include "shared/model/device.h"

#include <ATen/Context.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include "shared/base/error.h"
#include "shared/base/version.h"

namespace retina {

c10::Device choose_device(const std::string& wanted, int local_rank, int local_size) {
  const auto gpu_count = static_cast<int>(torch::cuda::device_count());
  if (wanted == "cpu" || (wanted == "auto" && gpu_count == 0)) return c10::Device(c10::kCPU);
  if (gpu_count == 0) {
    throw Error(ErrorKind::kUnavailable, "--device cuda: no GPU is found",
                "check nvidia-smi, start the container with --gpus all, or use --device cpu");
  }
  if (local_size > gpu_count) {
    throw Error(
        ErrorKind::kConfig,
        cat("this node has ", local_size, " ranks and ", gpu_count, " GPUs (want one GPU a rank)"),
        "start fewer ranks on each node, or use --device cpu");
  }
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(local_rank)};
}

std::string device_text(const c10::Device& device) {
  return device.str();
}

void register_torch_versions() {
  register_library_version("LibTorch", TORCH_VERSION);
  register_library_version("CUDA in LibTorch", at::globalContext().hasCUDA() ? "yes" : "no");
}

}  // namespace retina
