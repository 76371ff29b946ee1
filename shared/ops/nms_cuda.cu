#include "shared/ops/formulas.h"
#include "shared/ops/kernels.h"
#include "shared/ops/launch_cuda.cuh"

namespace retina::kernels {
namespace {

constexpr int kBlock = 64;  // boxes a mask word speaks for
constexpr int kScanThreads = 256;

__host__ __device__ inline std::int64_t words_for(std::int64_t count) {
  return (count + kBlock - 1) / kBlock;
}

// mask[n][i][w], bit b: box i of image n would drop box 64 w + b, which comes after it. Grid
// (words, words, N).
template <class T>
__global__ void overlap_mask(Nms<T> n) {
  const std::int64_t image = blockIdx.z, row = blockIdx.y, column = blockIdx.x;
  const std::int64_t i = row * kBlock + threadIdx.x;
  if (i >= n.count) return;
  const std::int64_t words = words_for(n.count);
  const T* boxes = n.boxes + 4 * image * n.count;
  const std::int64_t* labels = n.labels + image * n.count;
  std::uint64_t bits = 0;
  if (column >= row) {
    const T* box = boxes + 4 * i;
    const T area = box_area(box);
    for (int b = 0; b < kBlock; ++b) {
      const std::int64_t j = column * kBlock + b;
      if (j <= i || j >= n.count || labels[i] != labels[j]) continue;
      const T* other = boxes + 4 * j;
      const T iou = box_iou(box, area, other, box_area(other));
      if (static_cast<double>(iou) > n.iou_threshold) bits |= std::uint64_t{1} << b;
    }
  }
  n.mask[(image * (n.count + 1) + i) * words + column] = bits;
}

// A block an image walks its boxes in order; `dropped` [words] lies in row count of its mask.
template <class T>
__global__ void scan_mask(Nms<T> n) {
  const std::int64_t image = blockIdx.x, words = words_for(n.count);
  const std::uint64_t* mask = n.mask + image * (n.count + 1) * words;
  std::uint64_t* dropped = n.mask + (image * (n.count + 1) + n.count) * words;
  for (std::int64_t w = threadIdx.x; w < words; w += kScanThreads) dropped[w] = 0;
  __syncthreads();
  for (std::int64_t i = 0; i < n.count; ++i) {
    const bool is_box = n.labels[image * n.count + i] >= 0;
    const bool keep = is_box && (dropped[i / kBlock] >> (i % kBlock) & 1) == 0;
    __syncthreads();
    if (threadIdx.x == 0) n.keep[image * n.count + i] = keep;
    if (keep) {
      for (std::int64_t w = i / kBlock + threadIdx.x; w < words; w += kScanThreads) {
        dropped[w] |= mask[i * words + w];
      }
    }
    __syncthreads();
  }
}

}  // namespace

template <class T>
const char* launch_kernels(const Nms<T>& n, void* stream) {
  if (n.count == 0 || n.image_count == 0) return nullptr;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  const auto words = static_cast<unsigned>(words_for(n.count));
  const auto images = static_cast<unsigned>(n.image_count);
  overlap_mask<T><<<dim3(words, words, images), kBlock, 0, cuda_stream>>>(n);
  scan_mask<T><<<images, kScanThreads, 0, cuda_stream>>>(n);
  return launch_problem();
}

RETINA_WIDE_KERNELS(Nms)

}  // namespace retina::kernels
