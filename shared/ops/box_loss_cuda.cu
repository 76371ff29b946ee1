#include "shared/ops/box_formulas.h"
#include "shared/ops/kernels.h"
#include "shared/ops/launch_cuda.cuh"
#include "shared/ops/reduce_cuda.cuh"

namespace retina::kernels {
namespace {

// Grid (kPartials, N), a thread an anchor. `loss` is one of box_formulas.h.
template <class T, class Loss>
__global__ void box_loss_share(BoxLoss<T> b, Loss loss) {
  const std::int64_t image = blockIdx.y;
  const std::int64_t begin = b.anchor_count * blockIdx.x / gridDim.x;
  const std::int64_t end = b.anchor_count * (blockIdx.x + 1) / gridDim.x;
  double sum = 0;
  for (std::int64_t a = begin + threadIdx.x; a < end; a += kThreads) {
    const std::int64_t row = image * b.anchor_count + a, match = b.matches[row];
    T gradient[4] = {0, 0, 0, 0};
    if (match >= 0) {
      sum += static_cast<double>(
          loss(b.deltas + 4 * row, b.anchors + 4 * a, b.boxes + 4 * match, gradient));
    }
    if (b.gradient == nullptr) continue;
    for (int i = 0; i < 4; ++i) b.gradient[4 * row + i] = gradient[i];
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) b.partials[image * gridDim.x + blockIdx.x] = sum;
}

}  // namespace

template <class T>
const char* box_loss_cuda(const BoxLoss<T>& b, void* stream) {
  if (b.image_count == 0) return nullptr;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  const auto images = static_cast<unsigned>(b.image_count);
  with_kind(b, [&](const auto& loss) {
    box_loss_share<<<dim3(kPartials, images), kThreads, 0, cuda_stream>>>(b, loss);
  });
  sum_partials<T><<<images, kThreads, 0, cuda_stream>>>(b.partials, kPartials, b.sums);
  return launch_problem();
}

template const char* box_loss_cuda(const BoxLoss<float>&, void*);
template const char* box_loss_cuda(const BoxLoss<double>&, void*);

}  // namespace retina::kernels
