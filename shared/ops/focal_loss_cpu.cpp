#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <type_traits>

#include "shared/ops/formulas.h"
#include "shared/ops/kernels.h"
#include "shared/ops/matcher.h"
#include "shared/ops/partials.h"

namespace retina::kernels {
namespace {

// Built for AVX2 too, chosen when the program starts: without fused multiply-adds the bits are the
// same.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define RETINA_WIDE __attribute__((target_clones("default", "avx2")))
#else
#define RETINA_WIDE
#endif

constexpr std::int64_t kLanes = 8;

// The terms of `count` background logits and their gradients, for gamma 2.
RETINA_WIDE void square_terms(const float* __restrict logits, std::int64_t count,
                              float* __restrict gradient, float weight, float* __restrict terms) {
  for (std::int64_t i = 0; i < count; ++i) {
    const FocalTerm<float> term = focal_term(logits[i], 2.0F);
    terms[i] = weight * term.value;
    gradient[i] = weight * term.derivative;
  }
}

// The sum over background logits and their gradients, written to `gradient` unless that is null.
double background_sum(const float* logits, std::int64_t count, float* gradient, float weight) {
  constexpr std::int64_t kBlock = 1024;
  std::array<float, kBlock> terms, unwanted;
  std::array<double, kLanes> lanes{};
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t size = std::min(kBlock, count - begin);
    square_terms(logits + begin, size, gradient == nullptr ? unwanted.data() : gradient + begin,
                 weight, terms.data());
    for (std::int64_t i = 0; i < size; ++i) {
      lanes[static_cast<std::size_t>(i % kLanes)] += static_cast<double>(terms[i]);
    }
  }
  return std::accumulate(lanes.begin(), lanes.end(), 0.0);
}

}  // namespace

template <class T>
void focal_cpu(const Focal<T>& f) {
  // Of one anchor with any label, -1 for none.
  const auto row_sum = [&f](const T* logits, std::int64_t label, T* gradient) {
    double sum = 0;
    for (std::int64_t k = 0; k < f.class_count; ++k) {
      const bool foreground = k == label;
      const T weight = foreground ? f.alpha : T(1) - f.alpha;
      const auto term = focal_term(foreground ? -logits[k] : logits[k], f.gamma);
      sum += static_cast<double>(weight * term.value);
      if (gradient != nullptr) gradient[k] = (foreground ? -weight : weight) * term.derivative;
    }
    return sum;
  };
  const auto share_sum = [&](std::int64_t image, std::int64_t first, std::int64_t end) {
    double sum = 0;
    for (std::int64_t a = first; a < end;) {
      const std::int64_t row = image * f.anchor_count + a;
      const std::int64_t match = f.matches[row];
      const T* logits = f.logits + row * f.class_count;
      T* gradient = f.gradient == nullptr ? nullptr : f.gradient + row * f.class_count;
      if constexpr (std::is_same_v<T, float>) {
        std::int64_t run = 0;  // background anchors from here on
        while (a + run < end && f.matches[row + run] == kBackground) ++run;
        if (run > 0 && f.gamma == 2) {
          sum += background_sum(logits, run * f.class_count, gradient, 1 - f.alpha);
          a += run;
          continue;
        }
      }
      if (match == kIgnored) {
        if (gradient != nullptr) std::fill_n(gradient, f.class_count, T(0));
      } else {
        sum += row_sum(logits, match >= 0 ? f.labels[match] : -1, gradient);
      }
      ++a;
    }
    return sum;
  };
  sum_in_shares({.image_count = f.image_count,
                 .anchor_count = f.anchor_count,
                 .values_per_anchor = f.class_count},
                f.partials, f.sums, share_sum);
}

template void focal_cpu(const Focal<float>&);
template void focal_cpu(const Focal<double>&);

}  // namespace retina::kernels
