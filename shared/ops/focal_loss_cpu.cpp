#include <algorithm>

#include "shared/ops/formulas.h"
#include "shared/ops/kernels.h"
#include "shared/ops/matcher.h"
#include "shared/ops/partials.h"

namespace retina::kernels {

template <class T>
void focal_cpu(const Focal<T>& f) {
  const auto share_sum = [&f](std::int64_t image, std::int64_t first, std::int64_t end) {
    double sum = 0;
    for (std::int64_t a = first; a < end; ++a) {
      const std::int64_t row = image * f.anchor_count + a;
      const std::int64_t match = f.matches[row];
      T* gradient = f.gradient == nullptr ? nullptr : f.gradient + row * f.class_count;
      if (match == kIgnored) {
        if (gradient != nullptr) std::fill_n(gradient, f.class_count, T(0));
        continue;
      }
      const std::int64_t label = match >= 0 ? f.labels[match] : -1;
      const T* logits = f.logits + row * f.class_count;
      for (std::int64_t k = 0; k < f.class_count; ++k) {
        const bool foreground = k == label;
        const T weight = foreground ? f.alpha : T(1) - f.alpha;
        const auto term = focal_term(foreground ? -logits[k] : logits[k], f.gamma);
        sum += static_cast<double>(weight * term.value);
        if (gradient != nullptr) {
          gradient[k] = (foreground ? -weight : weight) * term.derivative;
        }
      }
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
