// blockIdx.x is a share of an image's anchors, blockIdx.y the image.
#include "shared/ops/box_formulas.h"
#include "shared/ops/kernels.h"
#include "shared/ops/launch_cuda.cuh"

namespace retina::kernels {
namespace {

constexpr int kThreads = 256;

// The block's sum of `value`, valid in thread 0; a tree, so the same bits every time.
__device__ inline double block_sum(double value) {
  __shared__ double sums[kThreads];
  sums[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  return sums[0];
}

// sums[image] = the sum of its partials; one block of kThreads threads an image.
template <class T>
__global__ void sum_partials(const double* partials, int partial_count, T* sums) {
  const double* row = partials + static_cast<std::int64_t>(blockIdx.x) * partial_count;
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < partial_count; i += kThreads) sum += row[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = static_cast<T>(sum);
}

// Grid (kPartials, N). A block takes a fixed share of an image's A * K logits; neighbouring threads
// take neighbouring logits.
template <bool kWantsQuality, class Stored>
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
    if (match == kIgnored) {
      store(T(0), gradient);
      continue;
    }
    const T logit = loaded(head.levels[level].values[place]);
    const bool foreground = match >= 0 && f.labels[match] == k;
    FocalTerm<T> term;
    if constexpr (kWantsQuality) {
      const AnchorPlace box = {anchor, match, image};
      const T quality = foreground ? predicted_iou(f.predicted, head.levels[level], box) : T(0);
      term = class_term(f, logit, foreground, quality);
    } else {
      term = plain_class_term(f, logit, foreground);
    }
    sum += static_cast<double>(term.value);
    store(term.derivative * head.weights[image], gradient);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) head.partials[image * gridDim.x + blockIdx.x] = sum;
}

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
const char* launch_kernels(const Focal<Stored>& f, void* stream) {
  if (f.head.image_count == 0) return nullptr;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  const auto images = static_cast<unsigned>(f.head.image_count);
  const dim3 grid(kPartials, images);
  if (f.kind == ClassLossKind::kFocal) {
    focal_share<false><<<grid, kThreads, 0, cuda_stream>>>(f);
  } else {
    focal_share<true><<<grid, kThreads, 0, cuda_stream>>>(f);
  }
  sum_partials<<<images, kThreads, 0, cuda_stream>>>(f.head.partials, kPartials, f.head.sums);
  return launch_problem();
}

RETINA_STORED_KERNELS(Focal)

template <class Stored>
const char* launch_kernels(const BoxLoss<Stored>& b, void* stream) {
  if (b.head.image_count == 0) return nullptr;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  const auto images = static_cast<unsigned>(b.head.image_count);
  with_kind(b, [&](const auto& loss) {
    box_loss_share<<<dim3(kPartials, images), kThreads, 0, cuda_stream>>>(b, loss);
  });
  sum_partials<<<images, kThreads, 0, cuda_stream>>>(b.head.partials, kPartials, b.head.sums);
  return launch_problem();
}

RETINA_STORED_KERNELS(BoxLoss)

}  // namespace retina::kernels
