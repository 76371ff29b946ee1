#include "shared/ops/formulas.h"
#include "shared/ops/kernels.h"
#include "shared/ops/launch_cuda.cuh"

namespace retina::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 256;                     // boxes in shared memory at a time
constexpr std::int64_t kBackgroundMatch = -1;  // kBackground, kIgnored of matcher.h, which needs
constexpr std::int64_t kIgnoredMatch = -2;     // ATen

// IoUs are never negative, so their bit patterns order like their values.
__device__ void atomic_larger(float* target, float value) {
  atomicMax(reinterpret_cast<unsigned*>(target), __float_as_uint(value));
}
__device__ void atomic_larger(double* target, double value) {
  atomicMax(reinterpret_cast<unsigned long long*>(target),
            static_cast<unsigned long long>(__double_as_longlong(value)));
}

template <class T>
__device__ T warp_largest(T value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value = larger(value, __shfl_xor_sync(0xFFFFFFFFU, value, distance));
  }
  return value;
}

// Loads boxes first .. first + kTile - 1 into shared memory; every thread of the block must call.
template <class T>
__device__ int load_tile(const Match<T>& m, std::int64_t first, T (*tile)[4]) {
  __syncthreads();
  const auto rest = m.box_count - first;
  const int count = rest < kTile ? static_cast<int>(rest) : kTile;
  for (int i = static_cast<int>(threadIdx.x); i < 4 * count; i += kThreads) {
    tile[i / 4][i % 4] = m.boxes[4 * first + i];
  }
  __syncthreads();
  return count;
}

// The best IoU of each box over all anchors, and the thresholded match of each anchor. A thread an
// anchor; threads past the end help loading and offer IoU 0.
template <class T>
__global__ void best_matches(Match<T> m) {
  __shared__ T tile[kTile][4];
  const std::int64_t a = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const bool real = a < m.anchor_count;
  T anchor[4] = {0, 0, 0, 0};
  for (int i = 0; real && i < 4; ++i) anchor[i] = m.anchors[4 * a + i];
  const T area = box_area(anchor);
  T best = -1;
  std::int64_t place = 0;
  for (std::int64_t first = 0; first < m.box_count; first += kTile) {
    const int count = load_tile(m, first, tile);
    for (int g = 0; g < count; ++g) {
      const T value = real ? box_iou(tile[g], box_area(tile[g]), anchor, area) : T(0);
      if (value > best) {
        best = value;
        place = first + g;
      }
      const T of_warp = warp_largest(value);
      if (threadIdx.x % 32 == 0 && of_warp > T(0))
        atomic_larger(m.best_of_box + first + g, of_warp);
    }
  }
  if (!real) return;
  m.matches[a] = best < m.background_iou   ? kBackgroundMatch
                 : best < m.foreground_iou ? kIgnoredMatch
                                           : m.first_index + place;
}

// Anchors that tie for the best of some box take their own best box.
template <class T>
__global__ void low_quality_matches(Match<T> m) {
  __shared__ T tile[kTile][4];
  const std::int64_t a = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const bool open = a < m.anchor_count && m.matches[a] < 0;
  T anchor[4] = {0, 0, 0, 0};
  for (int i = 0; open && i < 4; ++i) anchor[i] = m.anchors[4 * a + i];
  const T area = box_area(anchor);
  T best = -1;
  std::int64_t place = 0;
  bool ties = false;
  for (std::int64_t first = 0; first < m.box_count; first += kTile) {
    const int count = load_tile(m, first, tile);
    for (int g = 0; open && g < count; ++g) {
      const T value = box_iou(tile[g], box_area(tile[g]), anchor, area);
      if (value > best) {
        best = value;
        place = first + g;
      }
      ties = ties || (value > T(0) && value == m.best_of_box[first + g]);
    }
  }
  if (open && ties) m.matches[a] = m.first_index + place;
}

}  // namespace

template <class T>
const char* match_cuda(const Match<T>& m, void* stream) {
  if (m.anchor_count == 0) return nullptr;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  const unsigned blocks = blocks_for(m.anchor_count, kThreads);
  best_matches<T><<<blocks, kThreads, 0, cuda_stream>>>(m);
  if (m.low_quality_matches) low_quality_matches<T><<<blocks, kThreads, 0, cuda_stream>>>(m);
  return launch_problem();
}

template const char* match_cuda(const Match<float>&, void*);
template const char* match_cuda(const Match<double>&, void*);

}  // namespace retina::kernels
