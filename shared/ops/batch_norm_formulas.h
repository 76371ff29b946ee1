// The arithmetic of batch_norm_relu on GPUs. Like formulas.h: read by nvcc.
#pragma once

#include <cmath>

#include "shared/ops/formulas.h"
#include "shared/ops/kernels.h"

namespace retina::kernels {

// Normalisation of a channel's values, then residual and ReLU.
template <class T>
struct BatchNormChannel {
  T mean;
  T scale;  // weight / sqrt(var + eps)
  T bias;

  // Forward and backward must agree on its sign: they share this line.
  RETINA_HOST_DEVICE T normalised(T x) const { return (x - mean) * scale + bias; }
  RETINA_HOST_DEVICE T output(T x, T residual, bool relu) const {
    const T y = normalised(x) + residual;
    return relu && y < T(0) ? T(0) : y;  // NaN stays
  }
};

template <class Stored, class T>
RETINA_HOST_DEVICE BatchNormChannel<T> batch_norm_channel(const BatchNorm<Stored>& norm,
                                                          std::int64_t channel, T mean,
                                                          T inverse_std) {
  return {mean, inverse_std * norm.weight[channel], norm.bias[channel]};
}

// Writes what follows from the statistics of channel `channel`, the variance biased.
template <class Stored>
RETINA_HOST_DEVICE void put_statistics(const BatchNormForward<Stored>& f, std::int64_t channel,
                                       double mean, double variance) {
  using T = Loaded<Stored>;
  const auto count = static_cast<double>(f.norm.row_count);
  const double unbiased = variance * (count / larger(count - 1, 1.0));
  const auto moved = [&](T running, double found) {
    return static_cast<T>((1 - f.momentum) * static_cast<double>(running) + f.momentum * found);
  };
  f.means[channel] = static_cast<T>(mean);
  f.inverse_stds[channel] = static_cast<T>(1 / std::sqrt(variance + f.eps));
  f.running_mean[channel] = moved(f.running_mean[channel], mean);
  f.running_var[channel] = moved(f.running_var[channel], unbiased);
}

// The gradient of a channel: dx = scale (dy' - offset - slope (x - mean)), where, over the
// channel's R values, offset = mean(dy') and slope = mean(dy' (x - mean)) / (var + eps).
template <class T>
struct BatchNormGradient {
  T offset, slope;

  RETINA_HOST_DEVICE T input_gradient(const BatchNormChannel<T>& channel, T x, T gradient) const {
    return channel.scale * (gradient - offset - slope * (x - channel.mean));
  }
};

// Writes what follows from the sums of dy' and dy' (x - mean) of channel `channel`.
template <class Stored>
RETINA_HOST_DEVICE void put_gradient_sums(const BatchNormBackward<Stored>& b, std::int64_t channel,
                                          double sum, double product) {
  using T = Loaded<Stored>;
  const auto count = static_cast<double>(b.norm.row_count);
  const auto inverse_std = static_cast<double>(b.inverse_stds[channel]);
  b.bias_gradient[channel] = static_cast<T>(sum);
  b.weight_gradient[channel] = static_cast<T>(product * inverse_std);
  b.coefficients[2 * channel] = static_cast<T>(sum / count);
  b.coefficients[2 * channel + 1] = static_cast<T>(product * inverse_std * inverse_std / count);
}

}  // namespace retina::kernels
