// lib/libretina_gpu_trace.so: what a GPU does while a program trains or detects. Loaded before it,
//
//   GPU_TRACE=trace.json LD_PRELOAD=build/lib/libretina_gpu_trace.so build/bin/retina-train ...
//
// writes the kernels and copies of one second, 20 s after the start (GPU_TRACE_FOR_S,
// GPU_TRACE_AFTER_S), in Chrome's trace format; gpu_trace.py adds them up.
// CUDNN_BENCHMARK=1 has cuDNN try its algorithms for each new shape.
#include <ATen/Context.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <set>
#include <string>
#include <thread>

namespace {

double seconds_of(const char* variable, double otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtod(text, nullptr);
}

void write_trace(const std::string& path) {
  using torch::profiler::impl::ActivityType, torch::profiler::impl::ProfilerConfig,
      torch::profiler::impl::ProfilerState;
  const auto wait = [](double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  };
  wait(seconds_of("GPU_TRACE_AFTER_S", 20));
  const ProfilerConfig config(ProfilerState::KINETO);
  const std::set<ActivityType> of_gpu = {ActivityType::CUDA};
  torch::autograd::profiler::prepareProfiler(config, of_gpu);
  torch::autograd::profiler::enableProfiler(config, of_gpu);
  wait(seconds_of("GPU_TRACE_FOR_S", 1));
  torch::autograd::profiler::disableProfiler()->save(path);
  std::cerr << "gpu_trace: wrote " << path << '\n';
}

struct AtStart {
  AtStart() {
    if (seconds_of("CUDNN_BENCHMARK", 0) != 0) at::globalContext().setBenchmarkCuDNN(true);
    if (const char* const path = std::getenv("GPU_TRACE")) {
      std::thread(write_trace, std::string(path)).detach();
    }
  }
} at_start;

}  // namespace
