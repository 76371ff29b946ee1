#include "shared/ops/kernels.h"
#include "shared/ops/launch_cuda.cuh"

namespace retina::kernels {
namespace {

constexpr int kThreads = 256;

// Grid (values of an image / kThreads, N): neighbouring threads take neighbouring values.
template <class Stored>
__global__ void drop(Dropout<Stored> d) {
  const std::int64_t place = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (place < d.value_count) put_dropout(d, blockIdx.y, static_cast<std::uint32_t>(place));
}

}  // namespace

template <class Stored>
const char* launch_kernels(const Dropout<Stored>& d, void* stream) {
  if (d.image_count == 0 || d.value_count == 0) return nullptr;
  const dim3 grid(blocks_for(d.value_count, kThreads), static_cast<unsigned>(d.image_count));
  drop<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(d);
  return launch_problem();
}

RETINA_STORED_KERNELS(Dropout)

}  // namespace retina::kernels
