// Two passes over x in each direction. The grid is (chunks of group_norm_chunk_px pixels, N, tiles
// of columns), a column being kValues neighbouring channels of one group, which a thread loads and
// stores at once; neighbouring threads take neighbouring columns, then pixels. Sums have a fixed
// order: a thread's pixels, a block's threads, an image's chunks; no atomics.
#include <cstdint>
#include <type_traits>

#include "shared/ops/group_norm_formulas.h"
#include "shared/ops/kernels.h"
#include "shared/ops/launch_cuda.cuh"

namespace retina::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 4;  // at least, on a multiprocessor at once: 64 registers a thread

// What a thread takes: pixels of a column.
struct Share : Walk {
  std::int64_t image, chunk, column;
};

enum class Order { kForwards, kBackwards };

// How columns and pixels are dealt to the threads of a block: `columns` at once, `rows` pixels.
struct Tile {
  int columns, rows;
};
template <int kValues, class Norm>
__host__ __device__ Tile tile_of(const Norm& norm) {
  const std::int64_t columns = smaller<std::int64_t>(norm.channel_count / kValues, kThreads);
  return {static_cast<int>(columns), kThreads / static_cast<int>(columns)};
}

// kBackwards: the end of what the kernel before this one read, which the cache still has, first.
template <int kValues, class Norm>
__device__ Share share_of(const Norm& norm, Order order) {
  const bool backwards = order == Order::kBackwards;
  const Tile tile = tile_of<kValues>(norm);
  const int row = static_cast<int>(threadIdx.x) / tile.columns;
  Share share = {};
  share.image = backwards ? gridDim.y - 1 - blockIdx.y : blockIdx.y;
  share.chunk = backwards ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  share.column = std::int64_t{blockIdx.z} * tile.columns + threadIdx.x % tile.columns;
  const std::int64_t chunk_px = group_norm_chunk_px(norm.pixel_count);
  const std::int64_t first = share.chunk * chunk_px + row;
  const std::int64_t end = smaller(norm.pixel_count, (share.chunk + 1) * chunk_px);
  if (row < tile.rows && share.column * kValues < norm.channel_count && first < end) {
    share.count = static_cast<int>((end - first + tile.rows - 1) / tile.rows);
  }
  share.place =
      (share.image * norm.pixel_count + first) * norm.channel_count + share.column * kValues;
  share.step = tile.rows * norm.channel_count;
  return share;
}

// The channels of a share's column.
template <int kValues, class Stored, class T = Loaded<Stored>>
__device__ void load_channels(const GroupNorm<Stored>& norm, const T* means, const T* inverse_stds,
                              const Share& share, ChannelNorm<T> (&channels)[kValues]) {
  const std::int64_t channel = share.column * kValues;
  const std::int64_t group = share.image * norm.group_count + channel / norm.channels_per_group();
  const T mean = means[group], inverse_std = inverse_stds[group];
#pragma unroll
  for (int v = 0; v < kValues; ++v) {
    channels[v] = channel_norm(norm, channel + v, mean, inverse_std);
  }
}

// --- Forward -------------------------------------------------------------------------------------

// What the values of an image's group are counted from, so that a large mean costs no digits.
template <class Stored>
__device__ double group_origin(const GroupNorm<Stored>& norm, std::int64_t image,
                               std::int64_t group) {
  const std::int64_t first_value = image * norm.pixel_count * norm.channel_count;
  return static_cast<double>(loaded(norm.values[first_value + group * norm.channels_per_group()]));
}

// partials [N, chunks, C / kValues, 2]: sums and sums of squares of x - group_origin.
template <class Stored, int kValues>
__global__ void __launch_bounds__(kThreads, kBlocks) add_squares(GroupNorm<Stored> norm) {
  using T = Loaded<Stored>;
  __shared__ double sums[2][kThreads];
  const Share share = share_of<kValues>(norm, Order::kForwards);
  double sum = 0, squares = 0;
  if (share.count > 0) {
    // Each thread counts from a value of its own, exact in T, and moves the sums in f64: were all
    // to count from one value, and it far from the others, T would lose the squares' last digits.
    const T near = loaded(norm.values[share.place]);
    const Stored* const sources[] = {norm.values};
    for_each_pack<kValues, 4>(share, sources,
                              [&](std::int64_t, const Pack<Stored, kValues>(&packs)[1]) {
                                T pixel_sum = 0, pixel_squares = 0;
#pragma unroll
                                for (int v = 0; v < kValues; ++v) {
                                  const T distance = loaded(packs[0].values[v]) - near;
                                  pixel_sum += distance;
                                  pixel_squares += distance * distance;
                                }
                                sum += static_cast<double>(pixel_sum);
                                squares += static_cast<double>(pixel_squares);
                              });
    const std::int64_t group = share.column * kValues / norm.channels_per_group();
    const double shift = static_cast<double>(near) - group_origin(norm, share.image, group);
    const double count = static_cast<double>(share.count) * kValues;
    squares += shift * (2 * sum + count * shift);
    sum += count * shift;
  }
  sums[0][threadIdx.x] = sum;
  sums[1][threadIdx.x] = squares;
  __syncthreads();
  const Tile tile = tile_of<kValues>(norm);
  const std::int64_t column_count = norm.channel_count / kValues;
  if (static_cast<int>(threadIdx.x) >= tile.columns || share.column >= column_count) return;
  for (int row = 1; row < tile.rows; ++row) {
    sum += sums[0][row * tile.columns + threadIdx.x];
    squares += sums[1][row * tile.columns + threadIdx.x];
  }
  double* const partial =
      norm.partials + 2 * ((share.image * gridDim.x + share.chunk) * column_count + share.column);
  partial[0] = sum;
  partial[1] = squares;
}

constexpr int kGroupThreads = 64;

// Grid (G, N): the statistics of a group from its partials.
template <class Stored, int kValues>
__global__ void finish_statistics(GroupNormForward<Stored> f, std::int64_t chunk_count) {
  __shared__ double sums[2][kGroupThreads];
  const GroupNorm<Stored>& norm = f.norm;
  const std::int64_t image = blockIdx.y, group = blockIdx.x;
  const std::int64_t columns = norm.channels_per_group() / kValues;  // of the group
  const std::int64_t column_count = norm.channel_count / kValues;
  double sum = 0, squares = 0;
  for (std::int64_t i = threadIdx.x; i < chunk_count * columns; i += kGroupThreads) {
    const std::int64_t chunk = image * chunk_count + i / columns;
    const double* const partial =
        norm.partials + 2 * (chunk * column_count + group * columns + i % columns);
    sum += partial[0];
    squares += partial[1];
  }
  sums[0][threadIdx.x] = sum;
  sums[1][threadIdx.x] = squares;
  __syncthreads();
  for (int half = kGroupThreads / 2; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half) {
      sums[0][threadIdx.x] += sums[0][threadIdx.x + half];
      sums[1][threadIdx.x] += sums[1][threadIdx.x + half];
    }
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  using T = Loaded<Stored>;
  const auto value_count = static_cast<double>(norm.pixel_count * norm.channels_per_group());
  const double distance = sums[0][0] / value_count;  // of the mean from the origin
  const double variance = sums[1][0] / value_count - distance * distance;
  const std::int64_t place = image * norm.group_count + group;
  f.means[place] = static_cast<T>(group_origin(norm, image, group) + distance);
  // Rounding can leave it below 0. NaN stays NaN.
  f.inverse_stds[place] = static_cast<T>(1 / std::sqrt((variance < 0 ? 0 : variance) + f.eps));
}

template <class Stored, int kValues>
__global__ void __launch_bounds__(kThreads, kBlocks) normalise(GroupNormForward<Stored> f) {
  using T = Loaded<Stored>;
  const Share share = share_of<kValues>(f.norm, Order::kBackwards);
  if (share.count == 0) return;
  ChannelNorm<T> channels[kValues];
  load_channels<kValues>(f.norm, f.means, f.inverse_stds, share, channels);
  const Stored* const sources[] = {f.norm.values};
  map_packs<kValues, 4>(share, sources, f.out, [&](int v, const auto& packs) {
    return channels[v].output(loaded(packs[0].values[v]));
  });
}

// --- Backward ------------------------------------------------------------------------------------

// Where the sums of a channel are among the C of a chunk: threads write side by side.
template <int kValues>
__device__ std::int64_t channel_in_slot(std::int64_t slot, std::int64_t channel_count) {
  const std::int64_t column_count = channel_count / kValues;
  return slot % column_count * kValues + slot / column_count;
}

// partials [N, chunks, C, 2]: sums of dy' and dy' x_hat, in the order of channel_in_slot.
template <class Stored, int kValues>
__global__ void __launch_bounds__(kThreads, kBlocks) add_gradients(GroupNormBackward<Stored> b) {
  using T = Loaded<Stored>;
  // A thread with single values has many pixels to add; one with packs, at most 16 or 32 each.
  using Sum = std::conditional_t<kValues == 1, double, T>;
  __shared__ Sum sums[2][kValues * kThreads];
  const GroupNorm<Stored>& norm = b.norm;
  const Share share = share_of<kValues>(norm, Order::kForwards);
  Sum gradient_sums[kValues] = {}, products[kValues] = {};
  if (share.count > 0) {
    ChannelNorm<T> channels[kValues];
    load_channels<kValues>(norm, b.means, b.inverse_stds, share, channels);
    const Stored* const sources[] = {norm.values, b.output_gradients};
    for_each_pack<kValues, 2>(
        share, sources, [&](std::int64_t, const Pack<Stored, kValues>(&packs)[2]) {
#pragma unroll
          for (int v = 0; v < kValues; ++v) {
            const T x = loaded(packs[0].values[v]);
            const T gradient = channels[v].through_relu(x, loaded(packs[1].values[v]));
            gradient_sums[v] += static_cast<Sum>(gradient);
            products[v] += static_cast<Sum>(gradient * channels[v].normalised(x));
          }
        });
  }
#pragma unroll
  for (int v = 0; v < kValues; ++v) {
    sums[0][v * kThreads + threadIdx.x] = gradient_sums[v];
    sums[1][v * kThreads + threadIdx.x] = products[v];
  }
  __syncthreads();
  const Tile tile = tile_of<kValues>(norm);
  const std::int64_t column_count = norm.channel_count / kValues;
  for (int i = static_cast<int>(threadIdx.x); i < kValues * tile.columns; i += kThreads) {
    const int v = i / tile.columns, tile_column = i % tile.columns;
    const std::int64_t column = std::int64_t{blockIdx.z} * tile.columns + tile_column;
    if (column >= column_count) continue;
    double sum = 0, product = 0;
    for (int row = 0; row < tile.rows; ++row) {
      const int place = v * kThreads + row * tile.columns + tile_column;
      sum += static_cast<double>(sums[0][place]);
      product += static_cast<double>(sums[1][place]);
    }
    const std::int64_t chunk = share.image * gridDim.x + share.chunk;
    double* const partial =
        norm.partials + 2 * (chunk * norm.channel_count + v * column_count + column);
    partial[0] = sum;
    partial[1] = product;
  }
}

constexpr int kSlots = 32, kSlotThreads = kThreads / kSlots;

// Grid (C / kSlots, N): channel_sums from the partials of all chunks.
template <class Stored, int kValues>
__global__ void add_chunks(GroupNormBackward<Stored> b, std::int64_t chunk_count) {
  __shared__ double sums[2][kThreads];
  const std::int64_t image = blockIdx.y, channel_count = b.norm.channel_count;
  const std::int64_t slot = std::int64_t{blockIdx.x} * kSlots + threadIdx.x % kSlots;
  double sum = 0, product = 0;
  if (slot < channel_count) {
    for (std::int64_t chunk = threadIdx.x / kSlots; chunk < chunk_count; chunk += kSlotThreads) {
      const double* const partial =
          b.norm.partials + 2 * ((image * chunk_count + chunk) * channel_count + slot);
      sum += partial[0];
      product += partial[1];
    }
  }
  sums[0][threadIdx.x] = sum;
  sums[1][threadIdx.x] = product;
  __syncthreads();
  if (threadIdx.x >= kSlots || slot >= channel_count) return;
  for (int i = 1; i < kSlotThreads; ++i) {
    sum += sums[0][i * kSlots + threadIdx.x];
    product += sums[1][i * kSlots + threadIdx.x];
  }
  const std::int64_t channel = channel_in_slot<kValues>(slot, channel_count);
  double* const out = b.channel_sums + 2 * (image * channel_count + channel);
  out[0] = sum;
  out[1] = product;
}

// A thread a channel, then a thread a group of an image: what follows from the channels' sums.
template <class Stored>
__global__ void finish_gradients(GroupNormBackward<Stored> b) {
  using T = Loaded<Stored>;
  const GroupNorm<Stored>& norm = b.norm;
  const std::int64_t i = std::int64_t{blockIdx.x} * kGroupThreads + threadIdx.x;
  if (i < norm.channel_count) return put_parameter_gradients(b, i);
  const std::int64_t place = i - norm.channel_count;  // [N, G]
  if (place >= norm.image_count * norm.group_count) return;
  const std::int64_t image = place / norm.group_count, channels = norm.channels_per_group();
  const std::int64_t channel = place % norm.group_count * channels;
  const GroupGradient<T> group = group_gradient(
      b.channel_sums + 2 * (image * norm.channel_count + channel), norm.weight + channel, channels,
      channels * norm.pixel_count, b.inverse_stds[place]);
  b.coefficients[2 * place] = group.offset;
  b.coefficients[2 * place + 1] = group.slope;
}

template <class Stored, int kValues>
__global__ void __launch_bounds__(kThreads, kBlocks)
    put_input_gradients(GroupNormBackward<Stored> b) {
  using T = Loaded<Stored>;
  const GroupNorm<Stored>& norm = b.norm;
  const Share share = share_of<kValues>(norm, Order::kBackwards);
  if (share.count == 0) return;
  ChannelNorm<T> channels[kValues];
  load_channels<kValues>(norm, b.means, b.inverse_stds, share, channels);
  const T* const coefficients =
      b.coefficients +
      2 * (share.image * norm.group_count + share.column * kValues / norm.channels_per_group());
  const GroupGradient<T> group = {coefficients[0], coefficients[1]};
  const Stored* const sources[] = {norm.values, b.output_gradients};
  map_packs<kValues, 2>(share, sources, b.gradient, [&](int v, const auto& packs) {
    return group.input_gradient(channels[v], loaded(packs[0].values[v]),
                                loaded(packs[1].values[v]));
  });
}

// --- Launches ------------------------------------------------------------------------------------

// Whether a group's channels are whole packs.
template <class Stored>
bool has_packs(const GroupNorm<Stored>& norm) {
  return norm.channels_per_group() % (kPackBytes / sizeof(Stored)) == 0;
}

template <int kValues, class Stored>
dim3 grid_of(const GroupNorm<Stored>& norm) {
  const auto chunk_px = static_cast<int>(group_norm_chunk_px(norm.pixel_count));
  return {blocks_for(norm.pixel_count, chunk_px), static_cast<unsigned>(norm.image_count),
          blocks_for(norm.channel_count / kValues, tile_of<kValues>(norm).columns)};
}

template <int kValues, class Stored>
void launch_forward(const GroupNormForward<Stored>& f, cudaStream_t stream) {
  const dim3 grid = grid_of<kValues>(f.norm);
  const dim3 groups(static_cast<unsigned>(f.norm.group_count), grid.y);
  add_squares<Stored, kValues><<<grid, kThreads, 0, stream>>>(f.norm);
  finish_statistics<Stored, kValues><<<groups, kGroupThreads, 0, stream>>>(f, grid.x);
  normalise<Stored, kValues><<<grid, kThreads, 0, stream>>>(f);
}

template <int kValues, class Stored>
void launch_backward(const GroupNormBackward<Stored>& b, cudaStream_t stream) {
  const GroupNorm<Stored>& norm = b.norm;
  const dim3 grid = grid_of<kValues>(norm);
  const dim3 slots(blocks_for(norm.channel_count, kSlots), grid.y);
  const unsigned finish_blocks =
      blocks_for(norm.channel_count + norm.image_count * norm.group_count, kGroupThreads);
  add_gradients<Stored, kValues><<<grid, kThreads, 0, stream>>>(b);
  add_chunks<Stored, kValues><<<slots, kThreads, 0, stream>>>(b, grid.x);
  finish_gradients<Stored><<<finish_blocks, kGroupThreads, 0, stream>>>(b);
  put_input_gradients<Stored, kValues><<<grid, kThreads, 0, stream>>>(b);
}

template <class Stored>
bool is_empty(const GroupNorm<Stored>& norm) {
  return norm.image_count == 0 || norm.pixel_count == 0;
}

}  // namespace

template <class Stored>
const char* launch_kernels(const GroupNormForward<Stored>& f, void* stream) {
  if (is_empty(f.norm)) return nullptr;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  if (has_packs(f.norm) && is_aligned_to_packs(f.norm.values) && is_aligned_to_packs(f.out)) {
    launch_forward<kPackBytes / sizeof(Stored)>(f, cuda_stream);
  } else {
    launch_forward<1>(f, cuda_stream);
  }
  return launch_problem();
}

RETINA_STORED_KERNELS(GroupNormForward)

template <class Stored>
const char* launch_kernels(const GroupNormBackward<Stored>& b, void* stream) {
  if (is_empty(b.norm)) return nullptr;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  if (has_packs(b.norm) && is_aligned_to_packs(b.norm.values) &&
      is_aligned_to_packs(b.output_gradients) && is_aligned_to_packs(b.gradient)) {
    launch_backward<kPackBytes / sizeof(Stored)>(b, cuda_stream);
  } else {
    launch_backward<1>(b, cuda_stream);
  }
  return launch_problem();
}

RETINA_STORED_KERNELS(GroupNormBackward)

}  // namespace retina::kernels
