// Two passes over x in each direction, blocks and sums as channel_sums.cuh deals them.
#include <cstdint>

#include "shared/ops/batch_norm_formulas.h"
#include "shared/ops/channel_sums.cuh"
#include "shared/ops/kernels.h"
#include "shared/ops/launch_cuda.cuh"

namespace retina::kernels {
namespace {

// The channels of a share's column.
template <int kValues, class Stored, class T = Loaded<Stored>>
__device__ void load_channels(const BatchNorm<Stored>& norm, const T* means, const T* inverse_stds,
                              const Share& share, BatchNormChannel<T> (&channels)[kValues]) {
#pragma unroll
  for (int v = 0; v < kValues; ++v) {
    const std::int64_t channel = share.channel + v;
    channels[v] = batch_norm_channel(norm, channel, means[channel], inverse_stds[channel]);
  }
}

// What the values of a channel are counted from, so that a large mean costs no digits.
template <class Stored>
__device__ double channel_origin(const BatchNorm<Stored>& norm, std::int64_t channel) {
  return static_cast<double>(loaded(norm.values[channel]));
}

// --- Forward -------------------------------------------------------------------------------------

// partials: sums and sums of squares of x - channel_origin.
template <class Stored, int kValues>
__global__ void __launch_bounds__(kThreads, kWideBlocks) add_squares(BatchNorm<Stored> norm) {
  using T = Loaded<Stored>;
  using Sum = ThreadSum<T, kValues>;
  __shared__ double sums[2][kValues][kThreads + 1];
  const Share share = share_of<kValues>(norm, Order::kForwards);
  Sum thread_sums[kValues] = {}, thread_squares[kValues] = {};
  // Each thread counts from values of its own, exact in T, and moves the sums in f64: were all to
  // count from one value, and it far from the others, T would lose the squares' last digits.
  T near[kValues] = {};
  if (share.count > 0) {
#pragma unroll
    for (int v = 0; v < kValues; ++v) near[v] = loaded(norm.values[share.place + v]);
    const Stored* const sources[] = {norm.values};
    for_each_pack<kValues, 4>(share, sources,
                              [&](std::int64_t, const Pack<Stored, kValues>(&packs)[1]) {
#pragma unroll
                                for (int v = 0; v < kValues; ++v) {
                                  const T distance = loaded(packs[0].values[v]) - near[v];
                                  thread_sums[v] += static_cast<Sum>(distance);
                                  thread_squares[v] += static_cast<Sum>(distance * distance);
                                }
                              });
  }
#pragma unroll
  for (int v = 0; v < kValues; ++v) {
    double sum = static_cast<double>(thread_sums[v]),
           squares = static_cast<double>(thread_squares[v]);
    if (share.count > 0) {
      const double shift = static_cast<double>(near[v]) - channel_origin(norm, share.channel + v);
      squares += shift * (2 * sum + share.count * shift);
      sum += share.count * shift;
    }
    sums[0][v][threadIdx.x] = sum;
    sums[1][v][threadIdx.x] = squares;
  }
  __syncthreads();
  put_partials<double, 2, kValues>(norm, share, sums);
}

template <class Stored>
__global__ void finish_statistics(BatchNormForward<Stored> f) {
  __shared__ double block_sums[2][kThreads];
  const ChannelSums<2> sums = add_chunks(f.norm, block_sums);
  if (!sums.are_whole) return;
  const auto count = static_cast<double>(f.norm.row_count);
  const double distance = sums.values[0] / count;  // of the mean from the origin
  const double variance = sums.values[1] / count - distance * distance;
  // Rounding can leave it below 0. NaN stays NaN.
  put_statistics(f, sums.channel, channel_origin(f.norm, sums.channel) + distance,
                 variance < 0 ? 0 : variance);
}

template <class Stored, int kValues, bool kHasResidual>
__global__ void __launch_bounds__(kThreads, kBlocks) normalise(BatchNormForward<Stored> f) {
  using T = Loaded<Stored>;
  constexpr int kSources = kHasResidual ? 2 : 1;
  const Share share = share_of<kValues>(f.norm, Order::kBackwards);
  if (share.count == 0) return;
  BatchNormChannel<T> channels[kValues];
  load_channels<kValues>(f.norm, f.means, f.inverse_stds, share, channels);
  const Stored* sources[kSources] = {f.norm.values};
  if (kHasResidual) sources[kSources - 1] = f.residual;
  map_packs<kValues, 4 / kSources>(share, sources, f.out, [&](int v, const auto& packs) {
    const T residual = kHasResidual ? loaded(packs[kSources - 1].values[v]) : T(0);
    return channels[v].output(loaded(packs[0].values[v]), residual, f.norm.relu);
  });
}

// --- Backward ------------------------------------------------------------------------------------

// partials: sums of dy' and dy' (x - mean). With y, dy' goes to residual_gradient, too.
template <class Stored, int kValues, bool kHasOutput>
__global__ void __launch_bounds__(kThreads, kWideBlocks)
    add_gradients(BatchNormBackward<Stored> b) {
  using T = Loaded<Stored>;
  using Sum = ThreadSum<T, kValues>;
  constexpr int kSources = kHasOutput ? 3 : 2;
  __shared__ Sum sums[2][kValues][kThreads + 1];
  const Share share = share_of<kValues>(b.norm, Order::kForwards);
  Sum gradient_sums[kValues] = {}, products[kValues] = {};
  if (share.count > 0) {
    BatchNormChannel<T> channels[kValues];
    load_channels<kValues>(b.norm, b.means, b.inverse_stds, share, channels);
    const Stored* sources[kSources] = {b.norm.values, b.output_gradients};
    if (kHasOutput) sources[kSources - 1] = b.output;
    for_each_pack<kValues, 2>(
        share, sources, [&](std::int64_t place, const Pack<Stored, kValues>(&packs)[kSources]) {
          Pack<Stored, kValues> passed;
#pragma unroll
          for (int v = 0; v < kValues; ++v) {
            const T x = loaded(packs[0].values[v]);
            T gradient = loaded(packs[1].values[v]);
            if (kHasOutput) {
              gradient = through_relu(loaded(packs[kSources - 1].values[v]), gradient);
              store(gradient, passed.values + v);
            } else if (b.norm.relu) {
              gradient = through_relu(channels[v].normalised(x), gradient);
            }
            gradient_sums[v] += static_cast<Sum>(gradient);
            products[v] += static_cast<Sum>(gradient * (x - channels[v].mean));
          }
          if (kHasOutput) store_pack(passed, b.residual_gradient + place);
        });
  }
#pragma unroll
  for (int v = 0; v < kValues; ++v) {
    sums[0][v][threadIdx.x] = gradient_sums[v];
    sums[1][v][threadIdx.x] = products[v];
  }
  __syncthreads();
  put_partials<Sum, 2, kValues>(b.norm, share, sums);
}

template <class Stored>
__global__ void finish_gradients(BatchNormBackward<Stored> b) {
  __shared__ double block_sums[2][kThreads];
  const ChannelSums<2> sums = add_chunks(b.norm, block_sums);
  if (sums.are_whole) put_gradient_sums(b, sums.channel, sums.values[0], sums.values[1]);
}

template <class Stored, int kValues>
__global__ void __launch_bounds__(kThreads, kWideBlocks)
    put_input_gradients(BatchNormBackward<Stored> b) {
  using T = Loaded<Stored>;
  const Share share = share_of<kValues>(b.norm, Order::kBackwards);
  if (share.count == 0) return;
  BatchNormChannel<T> channels[kValues];
  load_channels<kValues>(b.norm, b.means, b.inverse_stds, share, channels);
  BatchNormGradient<T> gradients[kValues];
#pragma unroll
  for (int v = 0; v < kValues; ++v) {
    const T* const coefficients = b.coefficients + 2 * (share.channel + v);
    gradients[v] = {coefficients[0], coefficients[1]};
  }
  // Where there is y, the pass before has written dy'.
  const bool has_output = b.output != nullptr, relu = b.norm.relu && !has_output;
  const Stored* const sources[] = {b.norm.values,
                                   has_output ? b.residual_gradient : b.output_gradients};
  map_packs<kValues, 2>(share, sources, b.gradient, [&](int v, const auto& packs) {
    const T x = loaded(packs[0].values[v]);
    T gradient = loaded(packs[1].values[v]);
    if (relu) gradient = through_relu(channels[v].normalised(x), gradient);
    return gradients[v].input_gradient(channels[v], x, gradient);
  });
}

// --- Launches ------------------------------------------------------------------------------------

// Whether the rows are whole packs, here and at these addresses too.
template <class Stored, class... Pointers>
bool suits_packs(const BatchNorm<Stored>& norm, const Pointers*... others) {
  return norm.channel_count % (kPackBytes / sizeof(Stored)) == 0 &&
         is_aligned_to_packs(norm.values) && (is_aligned_to_packs(others) && ...);
}

template <int kValues, class Stored>
void launch_forward(const BatchNormForward<Stored>& f, cudaStream_t stream) {
  const unsigned grid = grid_of<kValues>(f.norm);
  const unsigned finish_blocks = blocks_for(f.norm.channel_count, kSlots);
  add_squares<Stored, kValues><<<grid, kThreads, 0, stream>>>(f.norm);
  finish_statistics<Stored><<<finish_blocks, kThreads, 0, stream>>>(f);
  if (f.residual != nullptr) {
    normalise<Stored, kValues, true><<<grid, kThreads, 0, stream>>>(f);
  } else {
    normalise<Stored, kValues, false><<<grid, kThreads, 0, stream>>>(f);
  }
}

template <int kValues, class Stored>
void launch_backward(const BatchNormBackward<Stored>& b, cudaStream_t stream) {
  const unsigned grid = grid_of<kValues>(b.norm);
  const unsigned finish_blocks = blocks_for(b.norm.channel_count, kSlots);
  if (b.output != nullptr) {
    add_gradients<Stored, kValues, true><<<grid, kThreads, 0, stream>>>(b);
  } else {
    add_gradients<Stored, kValues, false><<<grid, kThreads, 0, stream>>>(b);
  }
  finish_gradients<Stored><<<finish_blocks, kThreads, 0, stream>>>(b);
  if (b.gradient != nullptr) {
    put_input_gradients<Stored, kValues><<<grid, kThreads, 0, stream>>>(b);
  }
}

}  // namespace

template <class Stored>
const char* launch_kernels(const BatchNormForward<Stored>& f, void* stream) {
  if (f.norm.row_count == 0) return nullptr;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  if (suits_packs(f.norm, f.residual, f.out)) {
    launch_forward<kPackBytes / sizeof(Stored)>(f, cuda_stream);
  } else {
    launch_forward<1>(f, cuda_stream);
  }
  return launch_problem();
}

RETINA_STORED_KERNELS(BatchNormForward)

template <class Stored>
const char* launch_kernels(const BatchNormBackward<Stored>& b, void* stream) {
  if (b.norm.row_count == 0) return nullptr;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  if (suits_packs(b.norm, b.output_gradients, b.output, b.residual_gradient, b.gradient)) {
    launch_backward<kPackBytes / sizeof(Stored)>(b, cuda_stream);
  } else {
    launch_backward<1>(b, cuda_stream);
  }
  return launch_problem();
}

RETINA_STORED_KERNELS(BatchNormBackward)

}  // namespace retina::kernels
