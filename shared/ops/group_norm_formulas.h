// The arithmetic of group_norm_relu on GPUs. Like formulas.h: read by nvcc.
#pragma once

#include <cmath>

#include "shared/ops/formulas.h"
#include "shared/ops/kernels.h"

namespace retina::kernels {

// Normalisation of the values of a channel of an image, then ReLU.
template <class T>
struct ChannelNorm {
  T mean, inverse_std;
  T scale;  // inverse_std * weight
  T bias;

  RETINA_HOST_DEVICE T normalised(T x) const { return (x - mean) * inverse_std; }  // x_hat
  // Forward and backward must agree on its sign: they share this line.
  RETINA_HOST_DEVICE T before_relu(T x) const { return (x - mean) * scale + bias; }
  RETINA_HOST_DEVICE T output(T x) const {
    const T y = before_relu(x);
    return y < T(0) ? T(0) : y;  // NaN stays
  }
  // dy', the gradient of before_relu(x), given dy: 0 where the output is 0.
  RETINA_HOST_DEVICE T through_relu(T x, T output_gradient) const {
    return before_relu(x) <= T(0) ? T(0) : output_gradient;
  }
};

// Returns the normalisation of channel `channel`, in the group with these statistics.
template <class Stored, class T>
RETINA_HOST_DEVICE ChannelNorm<T> channel_norm(const GroupNorm<Stored>& norm, std::int64_t channel,
                                               T mean, T inverse_std) {
  return {mean, inverse_std, inverse_std * norm.weight[channel], norm.bias[channel]};
}

// The gradient of a group: dx = scale dy' - (offset + slope x_hat), where, over the group's
// values, offset = inverse_std mean(weight dy') and slope = inverse_std mean(weight dy' x_hat).
template <class T>
struct GroupGradient {
  T offset, slope;

  RETINA_HOST_DEVICE T input_gradient(const ChannelNorm<T>& channel, T x, T output_gradient) const {
    return channel.scale * channel.through_relu(x, output_gradient) -
           (offset + slope * channel.normalised(x));
  }
};

// channel_sums [D, 2] and weight [D] of the group's channels, `value_count` of its values.
template <class T>
RETINA_HOST_DEVICE GroupGradient<T> group_gradient(const double* channel_sums, const T* weight,
                                                   std::int64_t channels_per_group,
                                                   std::int64_t value_count, T inverse_std) {
  double sum = 0, product = 0;
  for (std::int64_t d = 0; d < channels_per_group; ++d) {
    sum += static_cast<double>(weight[d]) * channel_sums[2 * d];
    product += static_cast<double>(weight[d]) * channel_sums[2 * d + 1];
  }
  const double factor = static_cast<double>(inverse_std) / static_cast<double>(value_count);
  return {static_cast<T>(factor * sum), static_cast<T>(factor * product)};
}

// Gradients of weight and bias of channel `channel`: over the images, in order.
template <class Stored>
RETINA_HOST_DEVICE void put_parameter_gradients(const GroupNormBackward<Stored>& b,
                                                std::int64_t channel) {
  double sum = 0, product = 0;
  for (std::int64_t image = 0; image < b.norm.image_count; ++image) {
    const double* const sums = b.channel_sums + 2 * (image * b.norm.channel_count + channel);
    sum += sums[0];
    product += sums[1];
  }
  b.bias_gradient[channel] = static_cast<Loaded<Stored>>(sum);
  b.weight_gradient[channel] = static_cast<Loaded<Stored>>(product);
}

}  // namespace retina::kernels
