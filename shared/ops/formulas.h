// The arithmetic that a kernel on CPUs and on GPUs share, term by term in the order of
// torchvision's expressions, so that results agree to the last bit (built without fused multiply-
// add). Read by nvcc too: C++17, no std:: beyond <cmath>.
#pragma once

#include <cmath>
#include <cstdint>

#include "shared/numeric/bfloat16.h"
#include "shared/numeric/float16.h"
#include "shared/numeric/host_device.h"

namespace retina {

// Values of an anchor's match that are no box's index (matcher.h).
constexpr std::int64_t kBackground = -1;  // best IoU below the background threshold
constexpr std::int64_t kIgnored = -2;  // between the thresholds, or ignore_partial_boxes(): no loss

namespace kernels {

template <class T>
RETINA_HOST_DEVICE T smaller(T a, T b) {
  return b < a ? b : a;
}
template <class T>
RETINA_HOST_DEVICE T larger(T a, T b) {
  return a < b ? b : a;
}

// dy', the gradient before the ReLU that gave y: 0 where that is 0. NaN passes, as in LibTorch.
template <class T>
RETINA_HOST_DEVICE T through_relu(T y, T output_gradient) {
  return y <= T(0) ? T(0) : output_gradient;
}

template <class T>
RETINA_HOST_DEVICE T box_area(const T* box) {
  return (box[2] - box[0]) * (box[3] - box[1]);
}

// Intersection over union of two xyxy boxes with known areas.
template <class T>
RETINA_HOST_DEVICE T box_iou(const T* a, T area_a, const T* b, T area_b) {
  const T width = larger(T(0), smaller(a[2], b[2]) - larger(a[0], b[0]));
  const T height = larger(T(0), smaller(a[3], b[3]) - larger(a[1], b[1]));
  const T inter = width * height;
  return inter / (area_a + area_b - inter);
}

// box [4] relative to anchor [4] (box_coder.h) -> delta [4].
template <class T>
RETINA_HOST_DEVICE void encode_box(const T* box, const T* anchor, T* delta) {
  const T anchor_width = anchor[2] - anchor[0], anchor_height = anchor[3] - anchor[1];
  const T width = box[2] - box[0], height = box[3] - box[1];
  const T half = T(0.5);
  delta[0] = ((box[0] + half * width) - (anchor[0] + half * anchor_width)) / anchor_width;
  delta[1] = ((box[1] + half * height) - (anchor[1] + half * anchor_height)) / anchor_height;
  delta[2] = std::log(width / anchor_width);
  delta[3] = std::log(height / anchor_height);
}

// e^x for x <= 0. In f32 by arithmetic of our own, the same bits on CPUs and GPUs and in any number
// of lanes: x = n ln 2 + r, e^r = 1 + r + r^2 q(r), q a minimax polynomial (relative error 3e-9
// before rounding). Below -87, where f32 loses precision, as at -87.
RETINA_HOST_DEVICE double exp_of_negative(double x) {
  return std::exp(x);
}
RETINA_HOST_DEVICE float exp_of_negative(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: what is added to it becomes a whole number
  x = x < -87.0f ? -87.0f : x;
  const float shifted = x * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;  // ln 2 in two parts
  const float q =
      (((0.00138145986f * r + 0.00836871688f) * r + 0.0416683880f) * r + 0.166665206f) * r +
      0.499999934f;
  const float power = ((q * r) * r + r) + 1.0f;
  // The last bits of `shifted` are n; of a float, the exponent's begin at 23.
  return power * float_of_bits((bits_of_float(shifted) << 23) + 0x3F800000u);
}

// log(1 + x) for x in [0, 1]; in f32 as above: 2 atanh(s), s = x / (2 + x), atanh(s) = s + s^3
// h(s^2) (4e-9).
RETINA_HOST_DEVICE double log1p_of_unit(double x) {
  return std::log1p(x);
}
RETINA_HOST_DEVICE float log1p_of_unit(float x) {
  const float s = x / (2.0f + x);
  const float t = s * s;
  const float h = ((0.140063328f * t + 0.140008392f) * t + 0.200107671f) * t + 0.333332081f;
  return 2.0f * (s + (s * t) * h);
}

// Types of head outputs and their gradients in memory, besides f64 and f32; the arithmetic is f32.
struct Bfloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};
RETINA_HOST_DEVICE double loaded(double value) {
  return value;
}
RETINA_HOST_DEVICE float loaded(float value) {
  return value;
}
RETINA_HOST_DEVICE float loaded(Bfloat16 value) {
  return float_from_bfloat16(value.bits);
}
RETINA_HOST_DEVICE float loaded(Float16 value) {
  return float_from_float16(value.bits);
}
template <class Stored>
using Loaded = decltype(loaded(Stored()));

template <class T>
RETINA_HOST_DEVICE void store(T value, T* place) {
  *place = value;
}
RETINA_HOST_DEVICE void store(float value, Bfloat16* place) {
  place->bits = bfloat16_from_float(value);
}
RETINA_HOST_DEVICE void store(float value, Float16* place) {
  place->bits = float16_from_float(value);
}

// One term of the focal loss: f(x) = sigmoid(x)^gamma * softplus(x), the loss of a background logit
// x, and its derivative; a foreground logit's loss is f(-x).
template <class T>
struct FocalTerm {
  T value, derivative;
};
template <class T>
RETINA_HOST_DEVICE FocalTerm<T> focal_term(T x, T gamma) {
  const T decay = exp_of_negative(-std::abs(x));  // in (0, 1]: no overflow on either side
  const T inverse = T(1) / (T(1) + decay);
  const T other = decay * inverse;
  const T p = x >= T(0) ? inverse : other;     // sigmoid(x)
  const T rest = x >= T(0) ? other : inverse;  // 1 - p without cancellation
  const T softplus = larger(x, T(0)) + log1p_of_unit(decay);
  const T weight = gamma == T(2) ? p * p : std::pow(p, gamma);
  return {weight * softplus, weight * (gamma * rest * softplus + p)};
}

// The cross-entropy of logit x and a target q in 0 .. 1, and what its weights are made of.
template <class T>
struct SoftCrossEntropy {
  T value, p, rest;  // p = sigmoid(x), rest = 1 - p
};
template <class T>
RETINA_HOST_DEVICE SoftCrossEntropy<T> soft_cross_entropy(T x, T q) {
  const T decay = exp_of_negative(-std::abs(x));
  const T inverse = T(1) / (T(1) + decay), other = decay * inverse;
  const T linear = x >= T(0) ? (T(1) - q) * x : -q * x;  // max(x, 0) - q x without cancellation
  return {linear + log1p_of_unit(decay), x >= T(0) ? inverse : other, x >= T(0) ? other : inverse};
}

// One foreground term of the quality focal loss, (q - p)^2 times the cross-entropy (Li et al. 2020,
// eq. 3, beta 2), and its derivative.
template <class T>
RETINA_HOST_DEVICE FocalTerm<T> quality_term(T x, T q) {
  const SoftCrossEntropy<T> c = soft_cross_entropy(x, q);
  const T off = c.p - q;
  return {off * off * c.value, off * (T(2) * c.p * c.rest * c.value + off * off)};
}

// Returns a foreground term of the varifocal loss, q times the cross-entropy (Zhang et al. 2021,
// eq. 2), and its derivative.
template <class T>
RETINA_HOST_DEVICE FocalTerm<T> varifocal_term(T x, T q) {
  const SoftCrossEntropy<T> c = soft_cross_entropy(x, q);
  return {q * c.value, q * (c.p - q)};
}

}  // namespace kernels
}  // namespace retina
