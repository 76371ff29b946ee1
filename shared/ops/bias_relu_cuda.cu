#include "shared/ops/kernels.h"
#include "shared/ops/launch_cuda.cuh"

namespace retina::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kBytes = 16;  // that a thread moves at once

// A value a thread.
template <class Stored>
__global__ void one_each(BiasRelu<Stored> b) {
  const std::int64_t place = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (place >= b.count) return;
  put_bias_relu(b, place, place / b.channel_stride % b.channel_count);
}

// kBytes of neighbouring channels a thread: channels-last, their number a multiple.
template <class Stored>
__global__ void many_each(BiasRelu<Stored> b) {
  using T = Loaded<Stored>;
  constexpr int kValues = kBytes / sizeof(Stored);
  struct alignas(kBytes) Vector {
    Stored values[kValues];
  };
  const std::int64_t vector = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (vector >= b.count / kValues) return;
  const auto per_pixel = static_cast<std::uint32_t>(b.channel_count / kValues);
  const std::uint32_t channel = static_cast<std::uint32_t>(vector) % per_pixel * kValues;
  Vector x = reinterpret_cast<const Vector*>(b.values)[vector], residual = {};
  if (b.residual != nullptr) residual = reinterpret_cast<const Vector*>(b.residual)[vector];
  for (int i = 0; i < kValues; ++i) {
    T sum = loaded(x.values[i]);
    if (b.bias != nullptr) sum = sum + b.bias[channel + i];
    if (b.residual != nullptr) sum = sum + loaded(residual.values[i]);
    store(b.relu && sum < T(0) ? T(0) : sum, &x.values[i]);
  }
  reinterpret_cast<Vector*>(b.values)[vector] = x;
}

template <class Stored>
bool suits_vectors(const BiasRelu<Stored>& b) {
  constexpr int kValues = kBytes / sizeof(Stored);
  const auto is_aligned = [](const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % kBytes == 0;
  };
  return b.channel_stride == 1 && b.channel_count % kValues == 0 && is_aligned(b.values) &&
         is_aligned(b.residual) && b.count / kValues < (std::int64_t{1} << 32);
}

}  // namespace

template <class Stored>
const char* bias_relu_cuda(const BiasRelu<Stored>& b, void* stream) {
  if (b.count == 0) return nullptr;
  const auto on = static_cast<cudaStream_t>(stream);
  if (suits_vectors(b)) {
    const std::int64_t vectors = b.count / (kBytes / static_cast<int>(sizeof(Stored)));
    many_each<<<blocks_for(vectors, kThreads), kThreads, 0, on>>>(b);
  } else {
    one_each<<<blocks_for(b.count, kThreads), kThreads, 0, on>>>(b);
  }
  return launch_problem();
}

template const char* bias_relu_cuda(const BiasRelu<float>&, void*);
template const char* bias_relu_cuda(const BiasRelu<double>&, void*);
template const char* bias_relu_cuda(const BiasRelu<Bfloat16>&, void*);

}  // namespace retina::kernels
