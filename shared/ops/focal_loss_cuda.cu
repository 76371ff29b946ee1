#include "shared/ops/formulas.h"
#include "shared/ops/kernels.h"
#include "shared/ops/launch_cuda.cuh"
#include "shared/ops/reduce_cuda.cuh"

namespace retina::kernels {
namespace {

constexpr std::int64_t kIgnoredMatch = -2;  // kIgnored of matcher.h, which needs ATen

// Grid (kPartials, N). A block takes a fixed share of an image's A * K logits; neighbouring threads
// take neighbouring logits.
template <class T>
__global__ void focal_share(Focal<T> f) {
  const std::int64_t image = blockIdx.y;
  const std::int64_t total = f.anchor_count * f.class_count;
  const std::int64_t begin = total * blockIdx.x / gridDim.x;
  const std::int64_t end = total * (blockIdx.x + 1) / gridDim.x;
  const T* logits = f.logits + image * total;
  T* gradient = f.gradient == nullptr ? nullptr : f.gradient + image * total;
  double sum = 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const std::int64_t match = f.matches[image * f.anchor_count + i / f.class_count];
    if (match == kIgnoredMatch) {
      if (gradient != nullptr) gradient[i] = T(0);
      continue;
    }
    const bool foreground = match >= 0 && f.labels[match] == i % f.class_count;
    const T weight = foreground ? f.alpha : T(1) - f.alpha;
    const FocalTerm<T> term = focal_term(foreground ? -logits[i] : logits[i], f.gamma);
    sum += static_cast<double>(weight * term.value);
    if (gradient != nullptr) gradient[i] = (foreground ? -weight : weight) * term.derivative;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) f.partials[image * gridDim.x + blockIdx.x] = sum;
}

}  // namespace

template <class T>
const char* focal_cuda(const Focal<T>& f, void* stream) {
  if (f.image_count == 0) return nullptr;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  const auto images = static_cast<unsigned>(f.image_count);
  focal_share<T><<<dim3(kPartials, images), kThreads, 0, cuda_stream>>>(f);
  sum_partials<T><<<images, kThreads, 0, cuda_stream>>>(f.partials, kPartials, f.sums);
  return launch_problem();
}

template const char* focal_cuda(const Focal<float>&, void*);
template const char* focal_cuda(const Focal<double>&, void*);

}  // namespace retina::kernels
