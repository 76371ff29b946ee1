#include "shared/model/device.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include "shared/base/error.h"
#include "shared/base/version.h"

namespace retina {

c10::Device choose_device(DeviceChoice wanted, const NodePlace& place) {
  const auto gpu_count = static_cast<int>(torch::cuda::device_count());
  if (wanted == DeviceChoice::kCpu || (wanted == DeviceChoice::kAuto && gpu_count == 0))
    return c10::Device(c10::kCPU);
  if (gpu_count == 0) {
    throw Error(ErrorKind::kUnavailable, "--device cuda: no GPU found",
                "check nvidia-smi, start the container with --gpus all, or use --device cpu");
  }
  if (place.sees_own_gpu) return {c10::kCUDA, 0};
  if (place.local_size > gpu_count) {
    throw Error(ErrorKind::kConfig,
                cat("this node has ", place.local_size, " ranks and ", gpu_count,
                    gpu_count == 1 ? " GPU" : " GPUs", " (want one GPU per rank)"),
                "start fewer ranks on each node, or use --device cpu");
  }
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(place.local_rank)};
}

std::string device_text(const c10::Device& device) {
  return device.str();
}

void set_tf32(bool on) {
  at::globalContext().setAllowTF32CuDNN(on);
  at::globalContext().setAllowTF32CuBLAS(on);
}

std::shared_ptr<void> allocate_pinned(std::size_t bytes) {
  try {
    const at::Tensor memory = at::empty({static_cast<std::int64_t>(bytes)},
                                        at::TensorOptions().dtype(at::kByte).pinned_memory(true));
    return {memory.data_ptr(), [memory](void*) {}};
  } catch (const c10::Error&) {
    throw Error(ErrorKind::kUnavailable,
                cat("cannot get ", bytes, " bytes of page-locked memory for a batch"),
                "free memory on this machine, or choose a smaller --images-per-step");
  }
}

std::int64_t peak_device_bytes(const c10::Device& device) {
  if (device.is_cpu()) return 0;
  const auto total = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return at::getDeviceAllocator(device.type())
      ->getDeviceStats(device.index())
      .allocated_bytes[total]
      .peak;
}

void register_torch_versions() {
  register_library_version("LibTorch", TORCH_VERSION);
  register_library_version("CUDA in LibTorch", at::globalContext().hasCUDA() ? "yes" : "no");
  register_library_version("GPUs seen", cat(static_cast<int>(torch::cuda::device_count())));
}

}  // namespace retina
