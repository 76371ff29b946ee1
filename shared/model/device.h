// The device that a program runs on.
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

// Returns the unique ids of the GPUs that this process sees, of parts of GPUs too (MIG), by CUDA's
// number.
std::vector<std::string> visible_gpus();

// Returns the CPU or the first GPU; shared/job/rank_gpus.h selects a rank's own. Throws
// Error{kUnavailable} for cuda without a GPU.
c10::Device choose_device(DeviceChoice wanted);

// Returns "cpu", "cuda:0".
std::string device_text(const c10::Device& device);

// Allows or forbids f32 convolutions and matrix products on GPUs to round their factors to TF32 (10
// bits; Ampere and later). LibTorch's default allows it for convolutions, so code that needs IEEE
// f32 must forbid it. Process-wide; no effect on CPUs.
void set_tf32(bool on);

// Returns true if the device has arithmetic units for this type. bf16: GPUs from Ampere on, x86
// CPUs with AVX512-BF16 or AMX; fp16: GPUs, x86 CPUs with AVX512-FP16; fp32: all.
bool has_units_for(Precision precision, const c10::Device& device);

// Warns if `precision` makes convolutions slower than f32 would be, or in training their gradients,
// which LibTorch computes in fp16 without units on every CPU.
void warn_of_slow_precision(Precision precision, const c10::Device& device, bool trains);

// Allocates memory that GPUs copy from without a detour through a buffer of the driver's
// (page-locked), from LibTorch's pinned pool. Throws Error{kUnavailable} if there is none.
std::shared_ptr<void> allocate_pinned(std::size_t bytes);

// Returns the most memory that tensors have held on a GPU so far, from LibTorch's allocator; 0 for
// a CPU.
std::int64_t peak_device_bytes(const c10::Device& device);

// Return the memory that tensors hold on a GPU now, and the memory that they could still get: the
// free memory there and the reserve of LibTorch's allocator.
std::int64_t held_device_bytes(const c10::Device& device);
FreeMemory free_device_memory(const c10::Device& device);

// Registers LibTorch's version, its CUDA support and the number of visible GPUs for --version.
void register_torch_versions();

}  // namespace retina
