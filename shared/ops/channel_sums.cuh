// Sums of channels over R rows, and how kernels walk over such rows. A block takes a chunk of rows
// of a tile of columns, a column being kValues neighbouring channels, which a thread loads and
// stores at once; neighbouring threads take neighbouring columns, then rows; neighbouring blocks
// the tiles, then chunks. Sums have a fixed order: a thread's rows, a block's threads, the chunks;
// no atomics. `Rows` has what BatchNorm has: row_count, channel_count and partials
// [count_of_chunks(), C, kSums].
#pragma once

#include <cstdint>
#include <type_traits>

#include "shared/ops/kernels.h"
#include "shared/ops/launch_cuda.cuh"

namespace retina::kernels {

constexpr int kThreads = 256;
// Blocks, at least, on a multiprocessor at once: 64 registers a thread; where there are sums or
// coefficients of kValues channels, 80.
constexpr int kBlocks = 4, kWideBlocks = 3;
constexpr int kTileColumns = 32;  // at most: a warp reads 512 bytes side by side

// Layout of a block's threads: a row of `columns` columns side by side, `rows` such rows.
struct Tile {
  int columns, rows;
  unsigned count;  // tiles side by side
};
template <int kValues, class Rows>
__host__ __device__ Tile tile_of(const Rows& all_rows) {
  const std::int64_t all = all_rows.channel_count / kValues;
  const int columns = static_cast<int>(smaller<std::int64_t>(all, kTileColumns));
  return {columns, kThreads / columns, static_cast<unsigned>((all + columns - 1) / columns)};
}

template <int kValues, class Rows>
unsigned grid_of(const Rows& rows) {
  return static_cast<unsigned>(count_of_chunks(rows)) * tile_of<kValues>(rows).count;
}

// Rows of a column that a thread takes.
struct Share : Walk {
  std::int64_t chunk;
  std::int64_t first_channel;  // the tile's
  std::int64_t channel;        // the column's first
};

enum class Order { kForwards, kBackwards };

// kBackwards: the end of what the kernel before this one read, which the cache still has, first.
template <int kValues, class Rows>
__device__ Share share_of(const Rows& rows, Order order) {
  const Tile tile = tile_of<kValues>(rows);
  const unsigned block = order == Order::kBackwards ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  const int row = static_cast<int>(threadIdx.x) / tile.columns;
  Share share = {};
  share.chunk = block / tile.count;
  share.first_channel = std::int64_t{block % tile.count} * tile.columns * kValues;
  share.channel = share.first_channel + threadIdx.x % tile.columns * kValues;
  const std::int64_t chunk_rows = rows_of_chunk(rows);
  const std::int64_t first = share.chunk * chunk_rows + row;
  const std::int64_t end = smaller(rows.row_count, (share.chunk + 1) * chunk_rows);
  if (row < tile.rows && share.channel < rows.channel_count && first < end) {
    share.count = static_cast<int>((end - first + tile.rows - 1) / tile.rows);
  }
  share.place = first * rows.channel_count + share.channel;
  share.step = tile.rows * rows.channel_count;
  return share;
}

// Type that a thread adds in: one with single values has many rows; one with packs, at most about
// 128.
template <class T, int kValues>
using ThreadSum = std::conditional_t<kValues == 1, double, T>;

// kSums for each channel of each thread of a block, in shared memory. One element more than
// threads: rows of kValues neighbouring channels lie in different banks.
template <class Sum, int kSums, int kValues>
using BlockSums = Sum[kSums][kValues][kThreads + 1];

// Writes the partials of the block's chunk.
template <class Sum, int kSums, int kValues, class Rows>
__device__ void put_partials(const Rows& rows, const Share& share,
                             const BlockSums<Sum, kSums, kValues>& sums) {
  const Tile tile = tile_of<kValues>(rows);
  const int i = static_cast<int>(threadIdx.x);  // place among the tile's channels
  const std::int64_t channel = share.first_channel + i;
  if (i >= kValues * tile.columns || channel >= rows.channel_count) return;
  double totals[kSums] = {};
  for (int row = 0; row < tile.rows; ++row) {
    const int thread = row * tile.columns + i / kValues;
#pragma unroll
    for (int s = 0; s < kSums; ++s) {
      totals[s] += static_cast<double>(sums[s][i % kValues][thread]);
    }
  }
  double* const partials = rows.partials + kSums * (share.chunk * rows.channel_count + channel);
#pragma unroll
  for (int s = 0; s < kSums; ++s) partials[s] = totals[s];
}

constexpr int kSlots = 4;  // channels that a block adds the chunks of

template <int kSums>
struct ChannelSums {
  std::int64_t channel;
  bool are_whole;  // else another thread has them
  double values[kSums];
};

// Grid C / kSlots: the sums of a channel over the chunks. `sums` lies in shared memory.
template <int kSums, class Rows>
__device__ ChannelSums<kSums> add_chunks(const Rows& rows, double (&sums)[kSums][kThreads]) {
  ChannelSums<kSums> out = {};
  out.channel = std::int64_t{blockIdx.x} * kSlots + threadIdx.x % kSlots;
  const std::int64_t chunk_count = count_of_chunks(rows);
  if (out.channel < rows.channel_count) {
#pragma unroll 4
    for (std::int64_t chunk = threadIdx.x / kSlots; chunk < chunk_count;
         chunk += kThreads / kSlots) {
      const double* const partials =
          rows.partials + kSums * (chunk * rows.channel_count + out.channel);
#pragma unroll
      for (int s = 0; s < kSums; ++s) out.values[s] += partials[s];
    }
  }
#pragma unroll
  for (int s = 0; s < kSums; ++s) sums[s][threadIdx.x] = out.values[s];
  __syncthreads();
  for (int half = kThreads / 2; half >= kSlots; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half) {
#pragma unroll
      for (int s = 0; s < kSums; ++s) sums[s][threadIdx.x] += sums[s][threadIdx.x + half];
    }
    __syncthreads();
  }
  out.are_whole = threadIdx.x < kSlots && out.channel < rows.channel_count;
#pragma unroll
  for (int s = 0; s < kSums; ++s) out.values[s] = sums[s][threadIdx.x];
  return out;
}

}  // namespace retina::kernels
