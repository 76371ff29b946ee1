#include "shared/ops/box_formulas.h"
#include "shared/ops/kernels.h"
#include "shared/ops/launch_cuda.cuh"
#include "shared/ops/reduce_cuda.cuh"

namespace retina::kernels {
namespace {

// Grid (kPartials, N), a thread an anchor. `loss` is one of box_formulas.h.
template <class Stored, class Loss>
__global__ void box_loss_share(BoxLoss<Stored> b, Loss loss) {
  const HeadLoss<Stored>& head = b.head;
  const std::int64_t image = blockIdx.y;
  const std::int64_t begin = head.anchor_count * blockIdx.x / gridDim.x;
  const std::int64_t end = head.anchor_count * (blockIdx.x + 1) / gridDim.x;
  double sum = 0;
  int level = 0;
  for (std::int64_t a = begin + threadIdx.x; a < end; a += kThreads) {
    while (a >= head.levels[level].end_anchor()) ++level;
    const std::int64_t place = head.levels[level].place(image, a, 4);
    sum += anchor_loss(b, loss, {a, head.matches[image * head.anchor_count + a], image},
                       head.levels[level].values + place, head.levels[level].gradient + place);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) head.partials[image * gridDim.x + blockIdx.x] = sum;
}

}  // namespace

template <class Stored>
const char* box_loss_cuda(const BoxLoss<Stored>& b, void* stream) {
  if (b.head.image_count == 0) return nullptr;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  const auto images = static_cast<unsigned>(b.head.image_count);
  with_kind(b, [&](const auto& loss) {
    box_loss_share<<<dim3(kPartials, images), kThreads, 0, cuda_stream>>>(b, loss);
  });
  sum_partials<<<images, kThreads, 0, cuda_stream>>>(b.head.partials, kPartials, b.head.sums);
  return launch_problem();
}

template const char* box_loss_cuda(const BoxLoss<float>&, void*);
template const char* box_loss_cuda(const BoxLoss<double>&, void*);
template const char* box_loss_cuda(const BoxLoss<Bfloat16>&, void*);

}  // namespace retina::kernels
