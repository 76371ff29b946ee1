// What the tests of this folder share: they compare a GPU with the CPU, and skip where none is.
// fake_device/ runs them where there is none.
#pragma once

#include <c10/core/Device.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include "shared/model/device.h"

namespace retina {

const c10::Device kGpu(c10::kCUDA, 0);

inline bool is_fake_gpu() {
  return visible_gpus().front() == "the fake one";
}

}  // namespace retina

// Skips the test unless the build has CUDA and the machine a GPU.
#define RETINA_GPU_OR_SKIP() \
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU, or a build without CUDA"
