#include "shared/ops/kernels.h"
#include "shared/ops/launch_cuda.cuh"

namespace retina::kernels {
namespace {

constexpr int kThreads = 256;

// Grid (pixels of an image / kThreads, N): neighbouring threads write neighbouring pixels and read
// near ones.
__global__ void prepare(PrepareImages p) {
  const std::int64_t pixels = std::int64_t{p.height} * p.width;
  const std::int64_t pixel = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (pixel >= pixels) return;
  const PixelPlace place = {static_cast<int>(pixel % p.width), static_cast<int>(pixel / p.width)};
  put_pixel(p, p.rows[blockIdx.y], place, blockIdx.y * pixels + pixel);
}

}  // namespace

const char* launch_kernels(const PrepareImages& p, void* stream) {
  if (p.image_count == 0 || p.height == 0 || p.width == 0) return nullptr;
  const dim3 grid(blocks_for(std::int64_t{p.height} * p.width, kThreads),
                  static_cast<unsigned>(p.image_count));
  prepare<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(p);
  return launch_problem();
}

}  // namespace retina::kernels
