// Which device a program runs on.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/memory.h"
#include "shared/model/device_choice.h"
#include "shared/model/precision.h"

namespace retina {

// The unique ids of the GPUs that this process sees, of parts of GPUs too (MIG), by CUDA's number.
std::vector<std::string> visible_gpus();

// The CPU or the first GPU; a rank's own is of shared/job/rank_gpus.h. Throws Error{kUnavailable}
// for cuda without a GPU.
c10::Device choose_device(DeviceChoice wanted);

// "cpu", "cuda:0".
std::string device_text(const c10::Device& device);

// Whether f32 convolutions and matrix products on GPUs may round their factors to TF32 (10 bits;
// Ampere and later). LibTorch begins with convolutions that do, so whoever needs IEEE f32 must say
// so. Process-wide; no effect on CPUs.
void set_tf32(bool on);

// Whether the device multiplies numbers of this type by itself. bf16: GPUs from Ampere on, x86 CPUs
// with AVX512-BF16 or AMX; fp16: GPUs, x86 CPUs with AVX512-FP16; fp32: all.
bool has_units_for(Precision precision, const c10::Device& device);

// A log line where `precision` makes convolutions slower than f32 would be; when training, whose
// backward LibTorch computes in fp16 without units on every CPU.
void warn_of_slow_precision(Precision precision, const c10::Device& device, bool trains);

// Memory that GPUs copy from without a detour through a buffer of the driver's (page-locked), of
// LibTorch's pinned pool. Throws Error{kUnavailable} where there is none to have.
std::shared_ptr<void> allocate_pinned(std::size_t bytes);

// The most memory that tensors have held on a GPU so far, of LibTorch's allocator; 0 for a CPU.
std::int64_t peak_device_bytes(const c10::Device& device);

// What tensors hold on a GPU now, and what they could still get: what is free there and what
// LibTorch's allocator keeps in reserve.
std::int64_t held_device_bytes(const c10::Device& device);
FreeMemory free_device_memory(const c10::Device& device);

// Registers for --version: LibTorch's version, whether it has CUDA, how many GPUs it sees.
void register_torch_versions();

}  // namespace retina
