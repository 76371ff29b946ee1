#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <type_traits>

#include "shared/ops/formulas.h"
#include "shared/ops/kernels.h"
#include "shared/ops/matcher.h"
#include "shared/ops/partials.h"
#include "shared/ops/wide.h"

namespace retina::kernels {
namespace {

// The terms of `count` background logits and their gradients, for gamma 2.
struct TermWeights {
  float term, gradient;  // a gradient gets both
};
RETINA_WIDE void square_terms(const float* __restrict logits, std::int64_t count,
                              TermWeights weights, float* __restrict gradient,
                              float* __restrict terms) {
  for (std::int64_t i = 0; i < count; ++i) {
    const FocalTerm<float> term = focal_term(logits[i], 2.0F);
    terms[i] = weights.term * term.value;
    gradient[i] = weights.term * term.derivative * weights.gradient;
  }
}
RETINA_WIDE void widen(const Bfloat16* __restrict values, std::int64_t count,
                       float* __restrict wide) {
  for (std::int64_t i = 0; i < count; ++i) wide[i] = loaded(values[i]);
}
RETINA_WIDE void narrow(const float* __restrict wide, std::int64_t count,
                        Bfloat16* __restrict values) {
  for (std::int64_t i = 0; i < count; ++i) store(wide[i], values + i);
}

// The sum over background logits, whose gradients go to `gradient`.
template <class Stored>
double background_sum(const Stored* logits, std::int64_t count, TermWeights weights,
                      Stored* gradient) {
  constexpr std::int64_t kBlock = 1024;
  std::array<float, kBlock> terms, wide, wide_gradient;
  std::array<double, kLanes> lanes{};
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t size = std::min(kBlock, count - begin);
    if constexpr (std::is_same_v<Stored, float>) {
      square_terms(logits + begin, size, weights, gradient + begin, terms.data());
    } else {
      widen(logits + begin, size, wide.data());
      square_terms(wide.data(), size, weights, wide_gradient.data(), terms.data());
      narrow(wide_gradient.data(), size, gradient + begin);
    }
    for (std::int64_t i = 0; i < size; ++i) {
      lanes[static_cast<std::size_t>(i % kLanes)] += static_cast<double>(terms[i]);
    }
  }
  return std::accumulate(lanes.begin(), lanes.end(), 0.0);
}

// The sum over one anchor's logits with any label, -1 for none.
template <class Stored, class T = Loaded<Stored>>
double row_sum(const Focal<Stored>& f, const Stored* logits, std::int64_t label, T image_weight,
               Stored* gradient) {
  double sum = 0;
  for (std::int64_t k = 0; k < f.class_count; ++k) {
    const bool foreground = k == label;
    const T logit = loaded(logits[k]), weight = foreground ? f.alpha : T(1) - f.alpha;
    const auto term = focal_term(foreground ? -logit : logit, f.gamma);
    sum += static_cast<double>(weight * term.value);
    store((foreground ? -weight : weight) * term.derivative * image_weight, gradient + k);
  }
  return sum;
}

// The sum over anchors first .. end - 1 of an image, all on one level.
template <class Stored>
double level_sum(const Focal<Stored>& f, const Level<Stored>& level, std::int64_t image,
                 std::int64_t first, std::int64_t end) {
  const std::int64_t* matches = f.head.matches + image * f.head.anchor_count;
  const auto image_weight = f.head.weights[image];
  double sum = 0;
  for (std::int64_t a = first; a < end;) {
    const std::int64_t place = level.place(image, a, f.class_count);
    const Stored* logits = level.values + place;
    Stored* gradient = level.gradient + place;
    if constexpr (!std::is_same_v<Stored, double>) {
      std::int64_t run = 0;  // background anchors from here on
      while (a + run < end && matches[a + run] == kBackground) ++run;
      if (run > 0 && f.gamma == 2) {
        sum += background_sum(logits, run * f.class_count, {1 - f.alpha, image_weight}, gradient);
        a += run;
        continue;
      }
    }
    if (matches[a] == kIgnored) {
      std::fill_n(gradient, f.class_count, Stored{});
    } else {
      const std::int64_t label = matches[a] >= 0 ? f.labels[matches[a]] : -1;
      sum += row_sum(f, logits, label, image_weight, gradient);
    }
    ++a;
  }
  return sum;
}

}  // namespace

template <class Stored>
void focal_cpu(const Focal<Stored>& f) {
  sum_in_shares(f.head, f.class_count,
                [&f](const Level<Stored>& level, std::int64_t image, std::int64_t first,
                     std::int64_t end) { return level_sum(f, level, image, first, end); });
}

template void focal_cpu(const Focal<float>&);
template void focal_cpu(const Focal<double>&);
template void focal_cpu(const Focal<Bfloat16>&);

}  // namespace retina::kernels
