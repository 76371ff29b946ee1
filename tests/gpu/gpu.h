// What the tests of this folder share: they compare a GPU with the CPU, and skip where none is.
// With RETINA_TEST_DEVICE=cpu the CPU takes the GPU's place, so that every build runs what is
// around the comparisons.
#pragma once

#include <c10/core/Device.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <cstdlib>
#include <string_view>

namespace retina {

inline bool tests_on_cpu() {
  const char* const wanted = std::getenv("RETINA_TEST_DEVICE");
  return wanted != nullptr && std::string_view(wanted) == "cpu";
}

// What is compared with the CPU.
inline c10::Device test_device() {
  return tests_on_cpu() ? c10::Device(c10::kCPU) : c10::Device(c10::kCUDA, 0);
}
// As --device has it.
inline const char* test_device_option() {
  return tests_on_cpu() ? "cpu" : "cuda";
}

}  // namespace retina

// Skips the test unless the build has CUDA and the machine a GPU, or the CPU takes its place.
#define RETINA_TEST_DEVICE_OR_SKIP()                           \
  if (!retina::tests_on_cpu() && !torch::cuda::is_available()) \
  GTEST_SKIP() << "no GPU, or a build without CUDA"
// For what is about CUDA itself.
#define RETINA_GPU_OR_SKIP()                                          \
  if (retina::tests_on_cpu()) GTEST_SKIP() << "is about CUDA itself"; \
  RETINA_TEST_DEVICE_OR_SKIP()
