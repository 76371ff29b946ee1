#include "shared/ops/atss_formulas.h"
#include "shared/ops/launch_cuda.cuh"

namespace retina::kernels {
namespace {

// A block a box, a thread a lane of its sums.
constexpr int kThreads = kAtssLanes;

// The block's sum of `value`, for all threads; every thread of the block must call.
__device__ double sum_of_block(double value) {
  __shared__ double lanes[kThreads];
  lanes[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) lanes[threadIdx.x] += lanes[threadIdx.x + half];
    __syncthreads();
  }
  const double sum = lanes[0];
  __syncthreads();
  return sum;
}

// Calls body(anchor, its IoU with the box) for the thread's share of the candidates.
template <class T, class Body>
__device__ void for_candidates(const Atss<T>& a, const std::int32_t* cells, const T* box,
                               const Body& body) {
  const T area = box_area(box);
  for (int place = static_cast<int>(threadIdx.x); place < candidate_places(a); place += kThreads) {
    const std::int64_t anchor = candidate_at(a, cells, place);
    if (anchor < 0) continue;
    const T* const corners = a.anchors + 4 * anchor;
    body(anchor, box_iou(box, area, corners, box_area(corners)));
  }
}

// Calls body(place in [N, A], IoU) for the positive anchors among them.
template <class T, class Body>
__device__ void for_positives(const Atss<T>& a, const std::int32_t* cells, double threshold,
                              const Body& body) {
  const std::int64_t box = blockIdx.x;
  const T* const corners = a.boxes + 4 * box;
  std::int64_t image = 0;
  while (box >= a.offsets[image + 1]) ++image;
  for_candidates(a, cells, corners, [&](std::int64_t anchor, T iou) {
    if (static_cast<double>(iou) >= threshold && is_centred_inside(a, anchor, corners)) {
      body(image * a.anchor_count + anchor, iou);
    }
  });
}

// The threshold of each box, and the best IoU of each anchor over the boxes it is positive for.
template <class T>
__global__ void best_positives(Atss<T> a) {
  __shared__ std::int32_t cells[kMaxLevels * kAtssCells];
  const std::int64_t box = blockIdx.x;
  const T* const corners = a.boxes + 4 * box;
  if (threadIdx.x < a.level_count) {
    find_nearest_cells(a, a.levels[threadIdx.x], corners, cells + threadIdx.x * kAtssCells);
  }
  __syncthreads();
  const int cell_count = a.level_count * kAtssCells;
  for (int i = static_cast<int>(threadIdx.x); i < cell_count; i += kThreads) {
    a.cells[box * cell_count + i] = cells[i];
  }
  const std::int64_t count = candidate_count(a);
  double sum = 0, squares = 0;
  for_candidates(a, cells, corners, [&](std::int64_t, T iou) { sum += static_cast<double>(iou); });
  const double mean = sum_of_block(sum) / static_cast<double>(count);
  for_candidates(a, cells, corners,
                 [&](std::int64_t, T iou) { squares += square(static_cast<double>(iou) - mean); });
  const double threshold = atss_threshold(mean, sum_of_block(squares), count);
  if (threadIdx.x == 0) a.thresholds[box] = threshold;
  for_positives(a, cells, threshold,
                [&](std::int64_t place, T iou) { atomic_larger(a.best + place, iou); });
}

// A second look: the same arithmetic gives the same bits. Of the boxes that have an anchor's best
// IoU the first; kBackground, as an unsigned number, is above all.
template <class T>
__global__ void claim_anchors(Atss<T> a) {
  const std::int64_t box = blockIdx.x;
  for_positives(a, a.cells + box * a.level_count * kAtssCells, a.thresholds[box],
                [&](std::int64_t place, T iou) {
                  if (iou != a.best[place]) return;
                  atomicMin(reinterpret_cast<unsigned long long*>(a.matches + place),
                            static_cast<unsigned long long>(box));
                });
}

}  // namespace

template <class T>
const char* launch_kernels(const Atss<T>& a, void* stream) {
  if (a.box_count == 0) return nullptr;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  const auto blocks = static_cast<unsigned>(a.box_count);
  best_positives<T><<<blocks, kThreads, 0, cuda_stream>>>(a);
  claim_anchors<T><<<blocks, kThreads, 0, cuda_stream>>>(a);
  return launch_problem();
}

RETINA_WIDE_KERNELS(Atss)

}  // namespace retina::kernels
