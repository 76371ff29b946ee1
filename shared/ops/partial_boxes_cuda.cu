#include "shared/ops/launch_cuda.cuh"
#include "shared/ops/partial_boxes_formulas.h"

namespace retina::kernels {
namespace {

constexpr int kThreads = 256;

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
const char* ignore_partial_cuda(const IgnorePartial<T>& p, void* stream) {
  if (p.anchor_count == 0 || p.image_count == 0) return nullptr;
  const dim3 grid(blocks_for(p.anchor_count, kThreads), static_cast<unsigned>(p.image_count));
  ignore_anchors<T><<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(p);
  return launch_problem();
}

template const char* ignore_partial_cuda(const IgnorePartial<float>&, void*);
template const char* ignore_partial_cuda(const IgnorePartial<double>&, void*);

}  // namespace retina::kernels
