#include "shared/ops/channel_sums.cuh"
#include "shared/ops/kernels.h"
#include "shared/ops/launch_cuda.cuh"

namespace retina::kernels {
namespace {

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

// --- Backward ------------------------------------------------------------------------------------

// One pass over y and dy: dy', and its sums in the partials.
template <class Stored, int kValues>
__global__ void __launch_bounds__(kThreads, kWideBlocks) pass_and_add(BiasReluBackward<Stored> b) {
  using Sum = ThreadSum<Loaded<Stored>, kValues>;
  __shared__ Sum sums[1][kValues][kThreads + 1];
  const Share share = share_of<kValues>(b, Order::kForwards);
  Sum thread_sums[kValues] = {};
  if (share.count > 0) {
    const Stored* const sources[] = {b.output, b.output_gradients};
    map_packs<kValues, 4>(share, sources, b.gradient, [&](int v, const auto& packs) {
      const auto gradient = through_relu(loaded(packs[0].values[v]), loaded(packs[1].values[v]));
      thread_sums[v] += static_cast<Sum>(gradient);
      return gradient;
    });
  }
#pragma unroll
  for (int v = 0; v < kValues; ++v) sums[0][v][threadIdx.x] = thread_sums[v];
  __syncthreads();
  put_partials<Sum, 1, kValues>(b, share, sums);
}

template <class Stored>
__global__ void finish_bias(BiasReluBackward<Stored> b) {
  __shared__ double block_sums[1][kThreads];
  const ChannelSums<1> sums = add_chunks(b, block_sums);
  if (sums.are_whole) b.bias_gradient[sums.channel] = static_cast<Loaded<Stored>>(sums.values[0]);
}

template <int kValues, class Stored>
void launch_backward(const BiasReluBackward<Stored>& b, cudaStream_t stream) {
  const unsigned finish_blocks = blocks_for(b.channel_count, kSlots);
  pass_and_add<Stored, kValues><<<grid_of<kValues>(b), kThreads, 0, stream>>>(b);
  finish_bias<Stored><<<finish_blocks, kThreads, 0, stream>>>(b);
}

}  // namespace

template <class Stored>
const char* launch_kernels(const BiasRelu<Stored>& b, void* stream) {
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

RETINA_STORED_KERNELS(BiasRelu)

template <class Stored>
const char* launch_kernels(const BiasReluBackward<Stored>& b, void* stream) {
  if (b.row_count == 0) return nullptr;
  const auto on = static_cast<cudaStream_t>(stream);
  constexpr int kValues = kPackBytes / sizeof(Stored);
  const bool suits_packs = b.channel_count % kValues == 0 && is_aligned_to_packs(b.output) &&
                           is_aligned_to_packs(b.output_gradients) &&
                           is_aligned_to_packs(b.gradient);
  if (suits_packs) {
    launch_backward<kValues>(b, on);
  } else {
    launch_backward<1>(b, on);
  }
  return launch_problem();
}

RETINA_STORED_KERNELS(BiasReluBackward)

}  // namespace retina::kernels
