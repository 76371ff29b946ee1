#include "shared/ops/formulas.h"
#include "shared/ops/kernels.h"
#include "shared/ops/launch_cuda.cuh"
#include "shared/ops/reduce_cuda.cuh"

namespace retina::kernels {
namespace {

// Grid (kPartials, N), a thread an anchor.
template <class T>
__global__ void box_l1_share(BoxL1<T> b) {
  const std::int64_t image = blockIdx.y;
  const std::int64_t begin = b.anchor_count * blockIdx.x / gridDim.x;
  const std::int64_t end = b.anchor_count * (blockIdx.x + 1) / gridDim.x;
  double sum = 0;
  for (std::int64_t a = begin + threadIdx.x; a < end; a += kThreads) {
    const std::int64_t row = image * b.anchor_count + a;
    const std::int64_t match = b.matches[row];
    T target[4];
    if (match >= 0) encode_box(b.boxes + 4 * match, b.anchors + 4 * a, target);
    for (int i = 0; i < 4; ++i) {
      const T difference = match >= 0 ? b.deltas[4 * row + i] - target[i] : T(0);
      sum += static_cast<double>(std::abs(difference));
      if (b.gradient != nullptr) {
        b.gradient[4 * row + i] = T((difference > T(0)) - (difference < T(0)));
      }
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) b.partials[image * gridDim.x + blockIdx.x] = sum;
}

}  // namespace

template <class T>
const char* box_l1_cuda(const BoxL1<T>& b, void* stream) {
  if (b.image_count == 0) return nullptr;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  const auto images = static_cast<unsigned>(b.image_count);
  box_l1_share<T><<<dim3(kPartials, images), kThreads, 0, cuda_stream>>>(b);
  sum_partials<T><<<images, kThreads, 0, cuda_stream>>>(b.partials, kPartials, b.sums);
  return launch_problem();
}

template const char* box_l1_cuda(const BoxL1<float>&, void*);
template const char* box_l1_cuda(const BoxL1<double>&, void*);

}  // namespace retina::kernels
