#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "shared/ops/atss_formulas.h"
#include "shared/ops/batch_norm_formulas.h"
#include "shared/ops/box_formulas.h"
#include "shared/ops/group_norm_formulas.h"
#include "tests/gpu/emulation/reference.h"

namespace retina::emulation {

using namespace kernels;

template <class T>
void compute(const Match<T>& m) {
  std::vector<T> best_of_box(static_cast<std::size_t>(m.offsets[m.image_count]));
  const auto iou = [&](std::int64_t a, std::int64_t g) {
    const T *const anchor = m.anchors + 4 * a, *const box = m.boxes + 4 * g;
    return box_iou(box, box_area(box), anchor, box_area(anchor));
  };
  // Calls body(image, anchor, its box with the largest IoU, that IoU); no box: an IoU below 0.
  const auto for_each_anchor = [&](const auto& body) {
    for (std::int64_t n = 0; n < m.image_count; ++n) {
      for (std::int64_t a = 0; a < m.anchor_count; ++a) {
        std::int64_t place = 0;
        T best = -1;
        for (std::int64_t g = m.offsets[n]; g < m.offsets[n + 1]; ++g) {
          const T value = iou(a, g);
          T& of_box = best_of_box[static_cast<std::size_t>(g)];
          of_box = std::max(of_box, value);
          if (value > best) {
            best = value;
            place = g;
          }
        }
        body(n, a, place, best);
      }
    }
  };
  for_each_anchor([&](std::int64_t n, std::int64_t a, std::int64_t place, T best) {
    m.matches[n * m.anchor_count + a] = best < m.background_iou   ? kBackground
                                        : best < m.foreground_iou ? kIgnored
                                                                  : place;
  });
  if (!m.low_quality_matches) return;
  for_each_anchor([&](std::int64_t n, std::int64_t a, std::int64_t place, T) {
    for (std::int64_t g = m.offsets[n]; g < m.offsets[n + 1]; ++g) {
      const T value = iou(a, g);
      if (value > 0 && value == best_of_box[static_cast<std::size_t>(g)]) {
        m.matches[n * m.anchor_count + a] = place;
      }
    }
  });
}
template void compute(const Match<float>&);
template void compute(const Match<double>&);

// By the definition: all cells of a level in the order of their distances.
template <class T>
void compute(const Atss<T>& a) {
  std::vector<T> best(static_cast<std::size_t>(a.image_count * a.anchor_count), T(-1));
  for (std::int64_t n = 0; n < a.image_count; ++n) {
    for (std::int64_t g = a.offsets[n]; g < a.offsets[n + 1]; ++g) {
      const T* const box = a.boxes + 4 * g;
      std::vector<std::pair<std::int64_t, T>> candidates;  // anchor, IoU
      for (int i = 0; i < a.level_count; ++i) {
        const AtssLevel& level = a.levels[i];
        std::vector<std::pair<T, std::int64_t>> cells;  // distance, first anchor
        for (std::int64_t cell = 0; cell < std::int64_t{level.rows} * level.columns; ++cell) {
          const std::int64_t first = level.first_anchor + cell * a.anchors_per_cell;
          const T* const anchor = a.anchors + 4 * first;
          cells.emplace_back(square(centre_of(anchor, 0) - centre_of(box, 0)) +
                                 square(centre_of(anchor, 1) - centre_of(box, 1)),
                             first);
        }
        std::sort(cells.begin(), cells.end());
        cells.resize(std::min<std::size_t>(cells.size(), kAtssCells));
        for (const auto& [distance, first] : cells) {
          for (std::int64_t k = first; k < first + a.anchors_per_cell; ++k) {
            const T* const anchor = a.anchors + 4 * k;
            candidates.emplace_back(k, box_iou(box, box_area(box), anchor, box_area(anchor)));
          }
        }
      }
      double mean = 0, squares = 0;
      const auto count = static_cast<std::int64_t>(candidates.size());
      for (const auto& [anchor, iou] : candidates) mean += static_cast<double>(iou);
      mean /= static_cast<double>(count);
      for (const auto& [anchor, iou] : candidates)
        squares += square(static_cast<double>(iou) - mean);
      for (const auto& [anchor, iou] : candidates) {
        T& of_anchor = best[static_cast<std::size_t>(n * a.anchor_count + anchor)];
        if (static_cast<double>(iou) >= atss_threshold(mean, squares, count) && iou > of_anchor &&
            is_centred_inside(a, anchor, box)) {
          of_anchor = iou;
          a.matches[n * a.anchor_count + anchor] = g;
        }
      }
    }
  }
}
template void compute(const Atss<float>&);
template void compute(const Atss<double>&);

template <class T>
void compute(const IgnorePartial<T>& p) {
  for (std::int64_t n = 0; n < p.image_count; ++n) {
    for (std::int64_t a = 0; a < p.anchor_count; ++a) {
      std::int64_t& match = p.matches[n * p.anchor_count + a];
      bool is_ignored = p.claims[n * p.anchor_count + a] != kBackground;
      for (std::int64_t g = p.offsets[n]; g < p.offsets[n + 1]; ++g) {
        const T *const anchor = p.anchors + 4 * a, *const box = p.boxes + 4 * g;
        const T width = std::min(anchor[2], box[2]) - std::max(anchor[0], box[0]),
                height = std::min(anchor[3], box[3]) - std::max(anchor[1], box[1]);
        is_ignored =
            is_ignored || (width > 0 && height > 0 && 2 * (width * height) >= box_area(anchor));
      }
      if (match == kBackground && is_ignored) match = kIgnored;
    }
  }
}
template void compute(const IgnorePartial<float>&);
template void compute(const IgnorePartial<double>&);

template <class T>
void compute(const Nms<T>& n) {
  for (std::int64_t image = 0; image < n.image_count; ++image) {
    const std::int64_t first = image * n.count;
    const auto label = [&](std::int64_t i) { return n.labels[first + i]; };
    for (std::int64_t i = 0; i < n.count; ++i) n.keep[first + i] = label(i) >= 0;
    for (std::int64_t i = 0; i < n.count; ++i) {
      const T* const box = n.boxes + 4 * (first + i);
      for (std::int64_t j = i + 1; n.keep[first + i] && j < n.count; ++j) {
        const T* const other = n.boxes + 4 * (first + j);
        const T iou = box_iou(box, box_area(box), other, box_area(other));
        if (label(i) == label(j) && static_cast<double>(iou) > n.iou_threshold) {
          n.keep[first + j] = false;
        }
      }
    }
  }
}
template void compute(const Nms<float>&);
template void compute(const Nms<double>&);

namespace {

// head.sums from loss(level, place of the anchor's first value, anchor, its match, image).
template <class Stored, class Loss>
void add_losses(const HeadLoss<Stored>& head, std::int64_t values_per_anchor, const Loss& loss) {
  for (std::int64_t image = 0; image < head.image_count; ++image) {
    double sum = 0;
    for (int i = 0; i < head.level_count; ++i) {
      const Level<Stored>& level = head.levels[i];
      for (std::int64_t a = level.first_anchor; a < level.end_anchor(); ++a) {
        sum += loss(level, level.place(image, a, values_per_anchor), a,
                    head.matches[image * head.anchor_count + a], image);
      }
    }
    head.sums[image] = static_cast<Loaded<Stored>>(sum);
  }
}

}  // namespace

template <class Stored>
void compute(const Focal<Stored>& f) {
  using T = Loaded<Stored>;
  add_losses(f.head, f.class_count,
             [&](const Level<Stored>& level, std::int64_t place, std::int64_t anchor,
                 std::int64_t match, std::int64_t image) {
               double sum = 0;
               const T quality = f.kind == ClassLossKind::kFocal || match < 0
                                     ? T(0)
                                     : predicted_iou(f.predicted, level, {anchor, match, image});
               for (std::int64_t k = 0; k < f.class_count; ++k) {
                 const bool foreground = match >= 0 && f.labels[match] == k;
                 const T logit = loaded(level.values[place + k]);
                 const FocalTerm<T> term = class_term(f, logit, foreground, quality);
                 const T weight = match == kIgnored ? 0 : 1;
                 sum += static_cast<double>(weight * term.value);
                 store(weight * term.derivative * f.head.weights[image],
                       level.gradient + place + k);
               }
               return sum;
             });
}
template void compute(const Focal<float>&);
template void compute(const Focal<double>&);
template void compute(const Focal<Bfloat16>&);
template void compute(const Focal<Float16>&);

template <class Stored>
void compute(const BoxLoss<Stored>& b) {
  with_kind(b, [&](const auto& kind) {
    add_losses(b.head, 4,
               [&](const Level<Stored>& level, std::int64_t place, std::int64_t anchor,
                   std::int64_t match, std::int64_t image) {
                 return anchor_loss(b, kind, {anchor, match, image}, level.values + place,
                                    level.gradient + place);
               });
  });
}
template void compute(const BoxLoss<float>&);
template void compute(const BoxLoss<double>&);
template void compute(const BoxLoss<Bfloat16>&);
template void compute(const BoxLoss<Float16>&);

void compute(const PrepareImages& p) {
  std::int64_t pixel = 0;
  for (std::int64_t image = 0; image < p.image_count; ++image) {
    for (int y = 0; y < p.height; ++y) {
      for (int x = 0; x < p.width; ++x) put_pixel(p, p.rows[image], {x, y}, pixel++);
    }
  }
}

template <class Stored>
void compute(const Dropout<Stored>& d) {
  for (std::int64_t image = 0; image < d.image_count; ++image) {
    for (std::int64_t i = 0; i < d.value_count; ++i) {
      put_dropout(d, image, static_cast<std::uint32_t>(i));
    }
  }
}
template void compute(const Dropout<float>&);
template void compute(const Dropout<double>&);
template void compute(const Dropout<Bfloat16>&);
template void compute(const Dropout<Float16>&);

template <class Stored>
void compute(const BiasRelu<Stored>& b) {
  for (std::int64_t i = 0; i < b.count; ++i) {
    put_bias_relu(b, i / b.channel_stride % b.channel_count,
                  b.residual == nullptr ? nullptr : b.residual + i, b.values + i);
  }
}
template void compute(const BiasRelu<float>&);
template void compute(const BiasRelu<double>&);
template void compute(const BiasRelu<Bfloat16>&);
template void compute(const BiasRelu<Float16>&);

template <class Stored>
void compute(const BiasReluBackward<Stored>& b) {
  for (std::int64_t channel = 0; channel < b.channel_count; ++channel) {
    double sum = 0;
    for (std::int64_t row = 0; row < b.row_count; ++row) {
      const std::int64_t i = row * b.channel_count + channel;
      const auto passed = through_relu(loaded(b.output[i]), loaded(b.output_gradients[i]));
      store(passed, b.gradient + i);
      sum += static_cast<double>(passed);
    }
    b.bias_gradient[channel] = static_cast<Loaded<Stored>>(sum);
  }
}
template void compute(const BiasReluBackward<float>&);
template void compute(const BiasReluBackward<double>&);
template void compute(const BiasReluBackward<Bfloat16>&);
template void compute(const BiasReluBackward<Float16>&);

namespace {

// Calls body(channel, its norm in f64, place of a value), group by group, with the statistics.
struct Statistics {
  double mean, inverse_std;
};
template <class Stored, class Body>
void for_each_group(const GroupNorm<Stored>& norm, double eps, const Body& body) {
  for (std::int64_t group = 0; group < norm.image_count * norm.group_count; ++group) {
    const std::int64_t image = group / norm.group_count, channels = norm.channels_per_group();
    const std::int64_t first_channel = group % norm.group_count * channels;
    const auto for_each_value = [&](const auto& use) {
      for (std::int64_t p = 0; p < norm.pixel_count; ++p) {
        for (std::int64_t c = first_channel; c < first_channel + channels; ++c) {
          const std::int64_t place = (image * norm.pixel_count + p) * norm.channel_count + c;
          use(c, place, static_cast<double>(loaded(norm.values[place])));
        }
      }
    };
    const auto count = static_cast<double>(channels * norm.pixel_count);
    double sum = 0, squares = 0;
    for_each_value([&](std::int64_t, std::int64_t, double x) { sum += x / count; });
    for_each_value(
        [&](std::int64_t, std::int64_t, double x) { squares += (x - sum) * (x - sum) / count; });
    body(Statistics{sum, 1 / std::sqrt(squares + eps)}, image, for_each_value);
  }
}

// In f64.
template <class Stored>
ChannelNorm<double> channel_norm_at(const GroupNorm<Stored>& norm, std::int64_t channel,
                                    const Statistics& of_group) {
  return {of_group.mean, of_group.inverse_std,
          of_group.inverse_std * static_cast<double>(norm.weight[channel]),
          static_cast<double>(norm.bias[channel])};
}

}  // namespace

template <class Stored>
void compute(const GroupNormForward<Stored>& f) {
  for_each_group(f.norm, f.eps, [&](const Statistics& of_group, std::int64_t, const auto& values) {
    values([&](std::int64_t channel, std::int64_t place, double x) {
      store(static_cast<Loaded<Stored>>(channel_norm_at(f.norm, channel, of_group).output(x)),
            f.out + place);
    });
  });
}
template void compute(const GroupNormForward<float>&);
template void compute(const GroupNormForward<double>&);
template void compute(const GroupNormForward<Bfloat16>&);
template void compute(const GroupNormForward<Float16>&);

template <class Stored>
void compute(const GroupNormBackward<Stored>& b, double eps) {
  using T = Loaded<Stored>;
  const GroupNorm<Stored>& norm = b.norm;
  const auto dy = [&](std::int64_t place) {
    return static_cast<double>(loaded(b.output_gradients[place]));
  };
  std::vector<double> weight_gradient(static_cast<std::size_t>(norm.channel_count)),
      bias_gradient(weight_gradient.size());
  for_each_group(norm, eps, [&](const Statistics& of_group, std::int64_t, const auto& values) {
    GroupGradient<double> gradient = {};
    values([&](std::int64_t channel, std::int64_t place, double x) {
      const ChannelNorm<double> c = channel_norm_at(norm, channel, of_group);
      const double passed = c.through_relu(x, dy(place));
      gradient.offset += c.scale * passed;
      gradient.slope += c.scale * passed * c.normalised(x);
      weight_gradient[static_cast<std::size_t>(channel)] += passed * c.normalised(x);
      bias_gradient[static_cast<std::size_t>(channel)] += passed;
    });
    const auto count = static_cast<double>(norm.channels_per_group() * norm.pixel_count);
    gradient.offset /= count;
    gradient.slope /= count;
    values([&](std::int64_t channel, std::int64_t place, double x) {
      const ChannelNorm<double> c = channel_norm_at(norm, channel, of_group);
      store(static_cast<T>(gradient.input_gradient(c, x, dy(place))), b.gradient + place);
    });
  });
  for (std::size_t c = 0; c < weight_gradient.size(); ++c) {
    b.weight_gradient[c] = static_cast<T>(weight_gradient[c]);
    b.bias_gradient[c] = static_cast<T>(bias_gradient[c]);
  }
}
template void compute(const GroupNormBackward<float>&, double);
template void compute(const GroupNormBackward<double>&, double);
template void compute(const GroupNormBackward<Bfloat16>&, double);
template void compute(const GroupNormBackward<Float16>&, double);

namespace {

// Calls body(channel, its norm, its statistics, for_each_value), which takes use(place, x). In the
// type of the results: of few values that are nearly equal, the mean's rounding decides.
template <class Stored, class Body>
void for_each_channel(const BatchNorm<Stored>& norm, double eps, const Body& body) {
  using T = Loaded<Stored>;
  for (std::int64_t channel = 0; channel < norm.channel_count; ++channel) {
    const auto for_each_value = [&](const auto& use) {
      for (std::int64_t row = 0; row < norm.row_count; ++row) {
        const std::int64_t place = row * norm.channel_count + channel;
        use(place, loaded(norm.values[place]));
      }
    };
    const auto count = static_cast<double>(norm.row_count);
    double mean = 0, squares = 0;
    for_each_value([&](std::int64_t, T x) { mean += static_cast<double>(x); });
    mean /= count;
    for_each_value([&](std::int64_t, T x) {
      squares += (static_cast<double>(x) - mean) * (static_cast<double>(x) - mean);
    });
    const Statistics found = {mean, 1 / std::sqrt(squares / count + eps)};
    body(channel,
         batch_norm_channel(norm, channel, static_cast<T>(mean), static_cast<T>(found.inverse_std)),
         found, for_each_value);
  }
}

}  // namespace

template <class Stored>
void compute(const BatchNormForward<Stored>& f) {
  using T = Loaded<Stored>;
  const auto count = static_cast<double>(f.norm.row_count);
  for_each_channel(f.norm, f.eps,
                   [&](std::int64_t channel, const BatchNormChannel<T>& norm,
                       const Statistics& found, const auto& values) {
                     const double variance = 1 / (found.inverse_std * found.inverse_std) - f.eps;
                     const auto move = [&](T& running, double value) {
                       running +=
                           static_cast<T>(f.momentum * (value - static_cast<double>(running)));
                     };
                     move(f.running_mean[channel], found.mean);
                     move(f.running_var[channel], variance * count / std::max(count - 1, 1.0));
                     values([&](std::int64_t place, T x) {
                       const T residual = f.residual == nullptr ? 0 : loaded(f.residual[place]);
                       store(norm.output(x, residual, f.norm.relu), f.out + place);
                     });
                   });
}
template void compute(const BatchNormForward<float>&);
template void compute(const BatchNormForward<double>&);
template void compute(const BatchNormForward<Bfloat16>&);
template void compute(const BatchNormForward<Float16>&);

template <class Stored>
void compute(const BatchNormBackward<Stored>& b, const Stored* residual, double eps) {
  using T = Loaded<Stored>;
  const auto count = static_cast<double>(b.norm.row_count);
  for_each_channel(b.norm, eps,
                   [&](std::int64_t channel, const BatchNormChannel<T>& norm,
                       const Statistics& found, const auto& values) {
                     const auto passed = [&](std::int64_t place, T x) {
                       const T dy = loaded(b.output_gradients[place]);
                       const T added = residual == nullptr ? 0 : loaded(residual[place]);
                       return b.norm.relu ? through_relu(norm.output(x, added, true), dy) : dy;
                     };
                     double sum = 0, product = 0;
                     values([&](std::int64_t place, T x) {
                       sum += static_cast<double>(passed(place, x));
                       product += static_cast<double>(passed(place, x) * (x - norm.mean));
                       if (b.output != nullptr)
                         store(passed(place, x), b.residual_gradient + place);
                     });
                     b.bias_gradient[channel] = static_cast<T>(sum);
                     b.weight_gradient[channel] = static_cast<T>(product * found.inverse_std);
                     const BatchNormGradient<T> gradient = {
                         static_cast<T>(sum / count),
                         static_cast<T>(product * found.inverse_std * found.inverse_std / count)};
                     values([&](std::int64_t place, T x) {
                       store(gradient.input_gradient(norm, x, passed(place, x)),
                             b.gradient + place);
                     });
                   });
}
template void compute(const BatchNormBackward<float>&, const float*, double);
template void compute(const BatchNormBackward<double>&, const double*, double);
template void compute(const BatchNormBackward<Bfloat16>&, const Bfloat16*, double);
template void compute(const BatchNormBackward<Float16>&, const Float16*, double);

}  // namespace retina::emulation
