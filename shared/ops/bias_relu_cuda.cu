#include "shared/ops/kernels.h"
#include "shared/ops/launch_cuda.cuh"

namespace retina::kernels {
namespace {

constexpr int kThreads = 256;

// A value a thread.
template <class Stored>
__global__ void one_each(BiasRelu<Stored> b) {
  const std::int64_t place = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (place >= b.count) return;
  put_bias_relu(b, place / b.channel_stride % b.channel_count,
                b.residual == nullptr ? nullptr : b.residual + place, b.values + place);
}

// A pack of neighbouring channels a thread: channels-last, their number a multiple.
template <class Stored>
__global__ void pack_each(BiasRelu<Stored> b) {
  constexpr int kValues = kPackBytes / sizeof(Stored);
  using Values = Pack<Stored, kValues>;
  const std::int64_t number = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (number >= b.count / kValues) return;
  const auto per_pixel = static_cast<std::uint32_t>(b.channel_count / kValues);
  const std::uint32_t channel = static_cast<std::uint32_t>(number) % per_pixel * kValues;
  Values x = reinterpret_cast<const Values*>(b.values)[number], residual = {};
  if (b.residual != nullptr) residual = reinterpret_cast<const Values*>(b.residual)[number];
  for (int i = 0; i < kValues; ++i) {
    put_bias_relu(b, channel + i, &residual.values[i], &x.values[i]);
  }
  store_pack(x, b.values + number * kValues);
}

template <class Stored>
bool suits_packs(const BiasRelu<Stored>& b) {
  constexpr int kValues = kPackBytes / sizeof(Stored);
  return b.channel_stride == 1 && b.channel_count % kValues == 0 && is_aligned_to_packs(b.values) &&
         is_aligned_to_packs(b.residual) && b.count / kValues < (std::int64_t{1} << 32);
}

}  // namespace

template <class Stored>
const char* bias_relu_cuda(const BiasRelu<Stored>& b, void* stream) {
  if (b.count == 0) return nullptr;
  const auto on = static_cast<cudaStream_t>(stream);
  if (suits_packs(b)) {
    const std::int64_t packs = b.count / (kPackBytes / static_cast<int>(sizeof(Stored)));
    pack_each<<<blocks_for(packs, kThreads), kThreads, 0, on>>>(b);
  } else {
    one_each<<<blocks_for(b.count, kThreads), kThreads, 0, on>>>(b);
  }
  return launch_problem();
}

template const char* bias_relu_cuda(const BiasRelu<float>&, void*);
template const char* bias_relu_cuda(const BiasRelu<double>&, void*);
template const char* bias_relu_cuda(const BiasRelu<Bfloat16>&, void*);
template const char* bias_relu_cuda(const BiasRelu<Float16>&, void*);

}  // namespace retina::kernels
