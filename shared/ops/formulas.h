// The arithmetic that the CPU and CUDA twins of a kernel share, term by term in the order of
// torchvision's expressions, so that results agree to the last bit (built without fused multiply-
// add). Read by nvcc too: C++17, no std:: beyond <cmath>.
#pragma once

#include <cmath>

#ifdef __CUDACC__
#define RETINA_HOST_DEVICE __host__ __device__ inline
#else
#define RETINA_HOST_DEVICE inline
#endif

namespace retina::kernels {

template <class T>
RETINA_HOST_DEVICE T smaller(T a, T b) {
  return b < a ? b : a;
}
template <class T>
RETINA_HOST_DEVICE T larger(T a, T b) {
  return a < b ? b : a;
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

// One term of the focal loss: f(x) = sigmoid(x)^gamma * softplus(x), the loss of a background logit
// x, and its derivative; a foreground logit's loss is f(-x).
template <class T>
struct FocalTerm {
  T value, derivative;
};
template <class T>
RETINA_HOST_DEVICE FocalTerm<T> focal_term(T x, T gamma) {
  const T decay = std::exp(-std::abs(x));  // in (0, 1]: no overflow on either side
  const T inverse = T(1) / (T(1) + decay);
  const T p = x >= T(0) ? inverse : decay * inverse;     // sigmoid(x)
  const T rest = x >= T(0) ? decay * inverse : inverse;  // 1 - p without cancellation
  const T softplus = larger(x, T(0)) + std::log1p(decay);
  const T weight = gamma == T(2) ? p * p : std::pow(p, gamma);
  return {weight * softplus, weight * (gamma * rest * softplus + p)};
}

}  // namespace retina::kernels
