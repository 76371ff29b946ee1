#include "shared/ops/box_formulas.h"
#include "shared/ops/launch_cuda.cuh"

namespace retina::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 256;  // boxes in shared memory at a time

template <class T>
__device__ T warp_largest(T value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value = larger(value, __shfl_xor_sync(0xFFFFFFFFU, value, distance));
  }
  return value;
}

// Loads boxes first .. first + kTile - 1, or to `end`, into shared memory; every thread of the
// block must call.
template <class T>
__device__ int load_tile(const Match<T>& m, std::int64_t first, std::int64_t end, T (*tile)[4]) {
  __syncthreads();
  const int count = end - first < kTile ? static_cast<int>(end - first) : kTile;
  for (int i = static_cast<int>(threadIdx.x); i < 4 * count; i += kThreads) {
    tile[i / 4][i % 4] = m.boxes[4 * first + i];
  }
  __syncthreads();
  return count;
}

// Grid (ceil(A / kThreads), N), a thread an anchor of an image; threads past the end help loading
// and offer IoU 0.
template <class T>
struct Place {
  std::int64_t a, first_box, end_box;
  std::int64_t* match;
  T anchor[4];
};
template <class T>
__device__ Place<T> place_of_thread(const Match<T>& m) {
  Place<T> place = {static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x,
                    m.offsets[blockIdx.y], m.offsets[blockIdx.y + 1]};
  if (place.a >= m.anchor_count) return place;
  place.match = m.matches + blockIdx.y * m.anchor_count + place.a;
  for (int i = 0; i < 4; ++i) place.anchor[i] = m.anchors[4 * place.a + i];
  return place;
}

// The best IoU of each box over all anchors, and the thresholded match of each anchor.
template <class T>
__global__ void best_matches(Match<T> m) {
  __shared__ T tile[kTile][4];
  const Place<T> p = place_of_thread(m);
  const bool real = p.match != nullptr;
  const T area = box_area(p.anchor);
  T best = -1;
  std::int64_t place = 0;
  for (std::int64_t first = p.first_box; first < p.end_box; first += kTile) {
    const int count = load_tile(m, first, p.end_box, tile);
    for (int g = 0; g < count; ++g) {
      const T value = real ? box_iou(tile[g], box_area(tile[g]), p.anchor, area) : T(0);
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
  *p.match = best < m.background_iou ? kBackground : best < m.foreground_iou ? kIgnored : place;
}

// Anchors that tie for the best of some box take their own best box.
template <class T>
__global__ void low_quality_matches(Match<T> m) {
  __shared__ T tile[kTile][4];
  const Place<T> p = place_of_thread(m);
  const bool open = p.match != nullptr && *p.match < 0;
  const T area = box_area(p.anchor);
  T best = -1;
  std::int64_t place = 0;
  bool ties = false;
  for (std::int64_t first = p.first_box; first < p.end_box; first += kTile) {
    const int count = load_tile(m, first, p.end_box, tile);
    for (int g = 0; open && g < count; ++g) {
      const T value = box_iou(tile[g], box_area(tile[g]), p.anchor, area);
      if (value > best) {
        best = value;
        place = first + g;
      }
      ties = ties || (value > T(0) && value == m.best_of_box[first + g]);
    }
  }
  if (open && ties) *p.match = place;
}

// Grid (ceil(A / kThreads), N), a thread an anchor of an image.
template <class T>
__global__ void ignore_anchors(IgnorePartial<T> p) {
  const std::int64_t image = blockIdx.y;
  if (p.offsets[image] == p.offsets[image + 1]) return;
  const std::int64_t anchor = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (anchor < p.anchor_count) ignore_anchor(p, image, anchor);
}

}  // namespace

template <class T>
const char* launch_kernels(const Match<T>& m, void* stream) {
  if (m.anchor_count == 0 || m.image_count == 0) return nullptr;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  const dim3 grid(blocks_for(m.anchor_count, kThreads), static_cast<unsigned>(m.image_count));
  best_matches<T><<<grid, kThreads, 0, cuda_stream>>>(m);
  if (m.low_quality_matches) low_quality_matches<T><<<grid, kThreads, 0, cuda_stream>>>(m);
  return launch_problem();
}

RETINA_WIDE_KERNELS(Match)

template <class T>
const char* launch_kernels(const IgnorePartial<T>& p, void* stream) {
  if (p.anchor_count == 0 || p.image_count == 0) return nullptr;
  const dim3 grid(blocks_for(p.anchor_count, kThreads), static_cast<unsigned>(p.image_count));
  ignore_anchors<T><<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(p);
  return launch_problem();
}

RETINA_WIDE_KERNELS(IgnorePartial)

}  // namespace retina::kernels
