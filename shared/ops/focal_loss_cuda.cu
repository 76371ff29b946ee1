#include "shared/ops/formulas.h"
#include "shared/ops/kernels.h"
#include "shared/ops/launch_cuda.cuh"
#include "shared/ops/reduce_cuda.cuh"

namespace retina::kernels {
namespace {

constexpr std::int64_t kIgnoredMatch = -2;  // kIgnored of matcher.h, which needs ATen

// Grid (kPartials, N). A block takes a fixed share of an image's A * K logits; neighbouring threads
// take neighbouring logits.
template <class Stored>
__global__ void focal_share(Focal<Stored> f) {
  using T = Loaded<Stored>;
  const HeadLoss<Stored>& head = f.head;
  const std::int64_t image = blockIdx.y;
  const std::int64_t total = head.anchor_count * f.class_count;
  const std::int64_t begin = total * blockIdx.x / gridDim.x;
  const std::int64_t end = total * (blockIdx.x + 1) / gridDim.x;
  double sum = 0;
  int level = 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const std::int64_t anchor = i / f.class_count, k = i % f.class_count;
    while (anchor >= head.levels[level].end_anchor()) ++level;
    const std::int64_t place = head.levels[level].place(image, anchor, f.class_count) + k;
    Stored* const gradient = head.levels[level].gradient + place;
    const std::int64_t match = head.matches[image * head.anchor_count + anchor];
    if (match == kIgnoredMatch) {
      store(T(0), gradient);
      continue;
    }
    const T logit = loaded(head.levels[level].values[place]);
    const bool foreground = match >= 0 && f.labels[match] == k;
    const T weight = foreground ? f.alpha : T(1) - f.alpha;
    const FocalTerm<T> term = focal_term(foreground ? -logit : logit, f.gamma);
    sum += static_cast<double>(weight * term.value);
    store((foreground ? -weight : weight) * term.derivative * head.weights[image], gradient);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) head.partials[image * gridDim.x + blockIdx.x] = sum;
}

}  // namespace

template <class Stored>
const char* focal_cuda(const Focal<Stored>& f, void* stream) {
  if (f.head.image_count == 0) return nullptr;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  const auto images = static_cast<unsigned>(f.head.image_count);
  focal_share<<<dim3(kPartials, images), kThreads, 0, cuda_stream>>>(f);
  sum_partials<<<images, kThreads, 0, cuda_stream>>>(f.head.partials, kPartials, f.head.sums);
  return launch_problem();
}

template const char* focal_cuda(const Focal<float>&, void*);
template const char* focal_cuda(const Focal<double>&, void*);
template const char* focal_cuda(const Focal<Bfloat16>&, void*);

}  // namespace retina::kernels
