// What the tests of this folder share: they compare a GPU with the CPU, and skip where none is.
#pragma once

#include <gtest/gtest.h>
#include <torch/cuda.h>

// Skips the test unless the build has CUDA and the machine a GPU.
#define RETINA_GPU_OR_SKIP() \
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU, or a build without CUDA"
