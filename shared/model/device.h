// Which device a program runs on.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace retina {

// `wanted` is auto, cpu or cuda; `local_rank` / `local_size` the rank's place on its node: each
// rank takes the GPU of its place. auto is a GPU where one is found. Throws Error{kUnavailable} for
// cuda without a GPU, Error{kConfig} when a node has more ranks than GPUs.
c10::Device choose_device(const std::string& wanted, int local_rank, int local_size);

// "cpu", "cuda:0".
std::string device_text(const c10::Device& device);

// Registers LibTorch's (and CUDA's) version for --version.
void register_torch_versions();

}  // namespace retina
