// The arithmetic that the box loss on CPUs and on GPUs share, loss and gradient of one
// anchor. Like formulas.h: term by term in torchvision's order, read by nvcc too.
#pragma once

#include <cmath>

#include "shared/ops/formulas.h"
#include "shared/ops/kernels.h"

namespace retina::kernels {

// delta [4] relative to anchor [4] (box_coder.h) -> box [4]; `size` [2] gets its width and height.
template <class T>
RETINA_HOST_DEVICE void decode_box(const T* delta, const T* anchor, T max_log_size, T* box,
                                   T* size) {
  for (int i = 0; i < 2; ++i) {
    const T side = anchor[2 + i] - anchor[i];
    const T centre = delta[i] * side + (anchor[i] + T(0.5) * side);
    size[i] = std::exp(smaller(delta[2 + i], max_log_size)) * side;
    box[i] = centre - T(0.5) * size[i];
    box[2 + i] = centre + T(0.5) * size[i];
  }
}

// What d/da of larger(a, b) is: half where they tie, as autograd shares a tied maximum.
template <class T>
RETINA_HOST_DEVICE T share_of_larger(T a, T b) {
  return a > b ? T(1) : (a < b ? T(0) : T(0.5));
}

// 1 - GIoU of `found` and `truth` (head_losses.h) and its gradient with respect to `found`.
template <class T>
RETINA_HOST_DEVICE T giou_loss(const T* found, const T* truth, T* gradient) {
  const T eps = T(1e-7);
  T overlap[2], hull[2], side[2];  // width and height each
  for (int i = 0; i < 2; ++i) {
    overlap[i] = smaller(found[2 + i], truth[2 + i]) - larger(found[i], truth[i]);
    hull[i] = larger(found[2 + i], truth[2 + i]) - smaller(found[i], truth[i]);
    side[i] = found[2 + i] - found[i];
  }
  const bool meet = overlap[0] > T(0) && overlap[1] > T(0);
  const T inter = meet ? overlap[0] * overlap[1] : T(0);
  const T joint = side[0] * side[1] + box_area(truth) - inter;
  const T area = hull[0] * hull[1];
  const T by_joint = T(1) / (joint + eps), by_area = T(1) / (area + eps);
  const T d_joint = inter * by_joint * by_joint - by_area;
  const T d_inter = -by_joint - d_joint;  // the union loses what the intersection gains
  const T d_area = by_area - (area - joint) * by_area * by_area;
  for (int i = 0; i < 2; ++i) {
    const T other = side[1 - i];
    const T low = share_of_larger(found[i], truth[i]);           // moves the overlap's low edge
    const T high = share_of_larger(truth[2 + i], found[2 + i]);  // and its high edge
    const T d_overlap = meet ? d_inter * overlap[1 - i] : T(0), d_hull = d_area * hull[1 - i];
    gradient[i] = -low * d_overlap - d_joint * other - (T(1) - low) * d_hull;
    gradient[2 + i] = high * d_overlap + d_joint * other + (T(1) - high) * d_hull;
  }
  return T(1) - (inter / (joint + eps) - (area - joint) / (area + eps));
}

// The kinds of box loss (head_losses.h) as functions of one anchor: operator() gives the loss and
// writes its gradient with respect to delta [4].
// L1 with beta 0.
template <class T>
struct SmoothL1Loss {
  T target_std, beta;
  RETINA_HOST_DEVICE T operator()(const T* delta, const T* anchor, const T* box,
                                  T* gradient) const {
    T target[4], sum = T(0);
    encode_box(box, anchor, target);
    for (int i = 0; i < 4; ++i) {
      const T error = (delta[i] - target[i]) / target_std, size = std::abs(error);
      const bool near = size < beta;
      sum += near ? T(0.5) * error * error / beta : size - T(0.5) * beta;
      gradient[i] = (near ? error / beta : T((error > T(0)) - (error < T(0)))) / target_std;
    }
    return sum;
  }
};
template <class T>
struct GiouLoss {
  T max_log_size;
  RETINA_HOST_DEVICE T operator()(const T* delta, const T* anchor, const T* box,
                                  T* gradient) const {
    T found[4], size[2], by_corner[4];
    decode_box(delta, anchor, max_log_size, found, size);
    const T loss = giou_loss(found, box, by_corner);
    for (int i = 0; i < 2; ++i) {
      gradient[i] = (by_corner[i] + by_corner[2 + i]) * (anchor[2 + i] - anchor[i]);
      const bool clipped = delta[2 + i] > max_log_size;
      gradient[2 + i] = clipped ? T(0) : (by_corner[2 + i] - by_corner[i]) * T(0.5) * size[i];
    }
    return loss;
  }
};

// An anchor's box loss, an f64; its weighted gradient goes to `gradient`: zero unless foreground.
struct AnchorPlace {
  std::int64_t anchor, match, image;
};
template <class Stored, class Loss>
RETINA_HOST_DEVICE double anchor_loss(const BoxLoss<Stored>& b, const Loss& loss,
                                      const AnchorPlace& place, const Stored* delta,
                                      Stored* gradient) {
  using T = Loaded<Stored>;
  T value = T(0), derivative[4] = {0, 0, 0, 0};
  if (place.match >= 0) {
    T read[4];
    for (int i = 0; i < 4; ++i) read[i] = loaded(delta[i]);
    value = loss(read, b.anchors + 4 * place.anchor, b.boxes + 4 * place.match, derivative);
    for (int i = 0; i < 4; ++i) derivative[i] *= b.head.weights[place.image];
  }
  for (int i = 0; i < 4; ++i) store(derivative[i], gradient + i);
  return static_cast<double>(value);
}

// Calls body(loss of one anchor) with the kind that the options name.
template <class Stored, class Body>
void with_kind(const BoxLoss<Stored>& b, const Body& body) {
  using T = Loaded<Stored>;
  const T target_std = static_cast<T>(b.options.target_std);
  switch (b.options.kind) {
    case BoxLossKind::kL1:
      return body(SmoothL1Loss<T>{target_std, T(0)});
    case BoxLossKind::kSmoothL1:
      return body(SmoothL1Loss<T>{target_std, static_cast<T>(b.options.smooth_l1_beta)});
    case BoxLossKind::kGiou:
      return body(GiouLoss<T>{static_cast<T>(b.max_log_size)});
  }
}

}  // namespace retina::kernels
