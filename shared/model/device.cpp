#include "shared/model/device.h"

#include <ATen/Context.h>
#include <ATen/cpu/Utils.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/empty.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include <algorithm>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/log.h"
#include "shared/base/version.h"

namespace retina {
namespace {

// Returns LibTorch's names of the CPU's units for a precision.
const std::vector<const char*>& cpu_units(Precision precision) {
  static const std::vector<const char*> kBf16 = {"avx512_bf16", "amx_bf16"},
                                        kFp16 = {"avx512_fp16"};
  return precision == Precision::kBf16 ? kBf16 : kFp16;
}

constexpr auto kAllPools = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

c10::CachingDeviceAllocator::DeviceStats stats_of(const c10::Device& device) {
  return at::getDeviceAllocator(device.type())->getDeviceStats(device.index());
}

}  // namespace

c10::Device choose_device(DeviceChoice wanted) {
  const bool has_gpu = !visible_gpus().empty();
  if (wanted == DeviceChoice::kCuda && !has_gpu) {
    if (!at::globalContext().hasCUDART()) {
      throw Error(ErrorKind::kUnavailable, "--device cuda: this program was built without CUDA",
                  "take the package with cuda in its name, or build with FLAVOUR=cuda");
    }
    throw Error(ErrorKind::kUnavailable, "--device cuda: no GPU found",
                "check nvidia-smi, start the container with --gpus all, or use --device cpu");
  }
  if (wanted == DeviceChoice::kCpu || !has_gpu) return c10::Device(c10::kCPU);
  return {c10::kCUDA, 0};
}

std::string device_text(const c10::Device& device) {
  return device.str();
}

void set_tf32(bool on) {
  at::globalContext().setAllowTF32CuDNN(on);
  at::globalContext().setAllowTF32CuBLAS(on);
}

bool has_units_for(Precision precision, const c10::Device& device) {
  if (precision == Precision::kFp32) return true;
  if (device.is_cuda()) {
    return precision == Precision::kFp16 ||
           at::detail::getCUDAHooks().supportsBFloat16ConvolutionWithCuDNNv8();
  }
  const auto capabilities = at::cpu::get_cpu_capabilities();
  const std::vector<const char*>& units = cpu_units(precision);
  return std::any_of(units.begin(), units.end(), [&](const char* unit) {
    const auto found = capabilities.find(unit);
    return found != capabilities.end() && found->second.toBool();
  });
}

void warn_of_slow_precision(Precision precision, const c10::Device& device, bool trains) {
  const bool is_slow_back = trains && precision == Precision::kFp16 && device.is_cpu();
  if (has_units_for(precision, device) && !is_slow_back) return;
  log_warning("--precision ", word_of(kPrecisions, precision), ": ", device_text(device),
              " has no ", precision == Precision::kBf16 ? "bfloat16" : "float16", " units",
              is_slow_back ? " for gradients" : "",
              ", so that convolutions take longer than in fp32",
              device.is_cuda() ? "; --precision fp16 is what it has" : "");
}

std::shared_ptr<void> allocate_pinned(std::size_t bytes) {
  try {
    const at::Tensor memory = at::empty({static_cast<std::int64_t>(bytes)},
                                        at::TensorOptions().dtype(at::kByte).pinned_memory(true));
    return {memory.data_ptr(), [memory](void*) {}};
  } catch (const c10::Error&) {
    throw Error(ErrorKind::kUnavailable,
                cat("cannot get ", bytes, " bytes of page-locked memory for a batch"),
                "free memory on this machine, or take fewer images at a time (retina-train "
                "--micro-batch, retina-eval --images-per-batch)");
  }
}

std::int64_t peak_device_bytes(const c10::Device& device) {
  return device.is_cpu() ? 0 : stats_of(device).allocated_bytes[kAllPools].peak;
}

std::int64_t held_device_bytes(const c10::Device& device) {
  return stats_of(device).allocated_bytes[kAllPools].current;
}

FreeMemory free_device_memory(const c10::Device& device) {
  const auto unused = at::getDeviceAllocator(device.type())->getMemoryInfo(device.index()).first;
  const c10::CachingDeviceAllocator::DeviceStats stats = stats_of(device);
  return {.bytes = static_cast<std::int64_t>(unused) + stats.reserved_bytes[kAllPools].current -
                   stats.allocated_bytes[kAllPools].current,
          .limit = device_text(device)};
}

void register_torch_versions() {
  register_library_version("LibTorch", [] { return TORCH_VERSION; });
  register_library_version("CUDA in LibTorch",
                           [] { return at::globalContext().hasCUDART() ? "yes" : "no"; });
  register_library_version("GPUs seen",
                           [] { return cat(static_cast<int>(torch::cuda::device_count())); });
}

}  // namespace retina
