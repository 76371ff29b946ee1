// The arithmetic that CPUs and GPUs share: whether a partial box makes an anchor ignored; loss and
// gradient of one anchor's box, and of one class with such a box. Like formulas.h: term by term in
// torchvision's order, read by nvcc too.
#pragma once

#include <cmath>

#include "shared/ops/formulas.h"
#include "shared/ops/kernels.h"

namespace retina::kernels {

// A power of 2: its product with an area is exact.
constexpr double kPartialShare = 0.5;

// Returns true if at least kPartialShare of the anchor's area is inside the box.
template <class T>
RETINA_HOST_DEVICE bool is_mostly_inside(const T* anchor, const T* box) {
  const T width = smaller(anchor[2], box[2]) - larger(anchor[0], box[0]);
  const T height = smaller(anchor[3], box[3]) - larger(anchor[1], box[1]);
  return width > T(0) && height > T(0) &&
         width * height >= static_cast<T>(kPartialShare) * box_area(anchor);
}

// Puts the match of an anchor of an image (matcher.h: ignore_partial_boxes).
template <class T>
RETINA_HOST_DEVICE void ignore_anchor(const IgnorePartial<T>& p, std::int64_t image,
                                      std::int64_t anchor) {
  const std::int64_t place = image * p.anchor_count + anchor;
  if (p.matches[place] != kBackground) return;
  bool is_ignored = p.claims[place] != kBackground;
  for (std::int64_t g = p.offsets[image]; !is_ignored && g < p.offsets[image + 1]; ++g) {
    is_ignored = is_mostly_inside(p.anchors + 4 * anchor, p.boxes + 4 * g);
  }
  if (is_ignored) p.matches[place] = kIgnored;
}

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

// Returns d/da of larger(a, b): half where they tie, as autograd shares a tied maximum.
template <class T>
RETINA_HOST_DEVICE T share_of_larger(T a, T b) {
  return a > b ? T(1) : (a < b ? T(0) : T(0.5));
}

// Geometry of two boxes; arrays hold width and height.
template <class T>
struct BoxPair {
  const T *found, *truth;
  T overlap[2], hull[2], side[2];  // `side` of `found`
  bool meet;
  T inter, joint;  // areas of intersection and union
};
template <class T>
RETINA_HOST_DEVICE BoxPair<T> pair_of(const T* found, const T* truth) {
  BoxPair<T> p;
  p.found = found;
  p.truth = truth;
  for (int i = 0; i < 2; ++i) {
    p.overlap[i] = smaller(found[2 + i], truth[2 + i]) - larger(found[i], truth[i]);
    p.hull[i] = larger(found[2 + i], truth[2 + i]) - smaller(found[i], truth[i]);
    p.side[i] = found[2 + i] - found[i];
  }
  p.meet = p.overlap[0] > T(0) && p.overlap[1] > T(0);
  p.inter = p.meet ? p.overlap[0] * p.overlap[1] : T(0);
  p.joint = p.side[0] * p.side[1] + box_area(truth) - p.inter;
  return p;
}

// The gradient of f(inter, joint, hull) with respect to `found`, from that with respect to these,
// where d_inter has what the union loses when the intersection gains.
template <class T>
RETINA_HOST_DEVICE void put_gradient(const BoxPair<T>& p, T d_inter, T d_joint, const T* d_hull,
                                     T* gradient) {
  for (int i = 0; i < 2; ++i) {
    const T other = p.side[1 - i];
    const T low = share_of_larger(p.found[i], p.truth[i]);           // moves the overlap's low edge
    const T high = share_of_larger(p.truth[2 + i], p.found[2 + i]);  // and its high edge
    const T d_overlap = p.meet ? d_inter * p.overlap[1 - i] : T(0);
    gradient[i] = -low * d_overlap - d_joint * other - (T(1) - low) * d_hull[i];
    gradient[2 + i] = high * d_overlap + d_joint * other + (T(1) - high) * d_hull[i];
  }
}

// 1 - GIoU of `found` and `truth` (head_losses.h) and its gradient with respect to `found`.
template <class T>
RETINA_HOST_DEVICE T giou_loss(const T* found, const T* truth, T* gradient) {
  const T eps = T(1e-7);
  const BoxPair<T> p = pair_of(found, truth);
  const T area = p.hull[0] * p.hull[1];
  const T by_joint = T(1) / (p.joint + eps), by_area = T(1) / (area + eps);
  const T d_joint = p.inter * by_joint * by_joint - by_area;
  const T d_inter = -by_joint - d_joint;
  const T d_area = by_area - (area - p.joint) * by_area * by_area;
  const T d_hull[2] = {d_area * p.hull[1], d_area * p.hull[0]};
  put_gradient(p, d_inter, d_joint, d_hull, gradient);
  return T(1) - (p.inter / (p.joint + eps) - (area - p.joint) / (area + eps));
}

// The same of 1 - CIoU.
template <class T>
RETINA_HOST_DEVICE T ciou_loss(const T* found, const T* truth, T* gradient) {
  const T eps = T(1e-7), scale = T(4 / (3.141592653589793 * 3.141592653589793));
  const BoxPair<T> p = pair_of(found, truth);
  const T iou = p.inter / (p.joint + eps), by_joint = T(1) / (p.joint + eps);
  const T d_joint = p.inter * by_joint * by_joint;
  // Between the centres, and along the hull's diagonal.
  const T diagonal = p.hull[0] * p.hull[0] + p.hull[1] * p.hull[1] + eps;
  T apart[2];
  for (int i = 0; i < 2; ++i) {
    apart[i] = (found[2 + i] + found[i]) / T(2) - (truth[i] + truth[2 + i]) / T(2);
  }
  const T distance = (apart[0] * apart[0] + apart[1] * apart[1]) / diagonal;
  const T d_hull[2] = {-T(2) * distance * p.hull[0] / diagonal,
                       -T(2) * distance * p.hull[1] / diagonal};
  put_gradient(p, -by_joint - d_joint, d_joint, d_hull, gradient);
  // Between the angles of the diagonals. atan2, where a side may be 0.
  const T angle =
      std::atan2(truth[2] - truth[0], truth[3] - truth[1]) - std::atan2(p.side[0], p.side[1]);
  const T aspect = scale * (angle * angle);
  const T weight = aspect / (T(1) - iou + aspect + eps);
  const T squares = p.side[0] * p.side[0] + p.side[1] * p.side[1];
  const T d_angle = squares > T(0) ? weight * scale * T(2) * angle / squares : T(0);
  const T d_side[2] = {-d_angle * p.side[1], d_angle * p.side[0]};
  for (int i = 0; i < 2; ++i) {
    gradient[i] += apart[i] / diagonal - d_side[i];
    gradient[2 + i] += apart[i] / diagonal + d_side[i];
  }
  return T(1) - iou + distance + weight * aspect;
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
// 1 - GIoU, or 1 - CIoU, of the decoded box.
template <class T, bool kIsComplete>
struct OverlapLoss {
  T max_log_size;
  RETINA_HOST_DEVICE T operator()(const T* delta, const T* anchor, const T* box,
                                  T* gradient) const {
    T found[4], size[2], by_corner[4];
    decode_box(delta, anchor, max_log_size, found, size);
    const T loss =
        kIsComplete ? ciou_loss(found, box, by_corner) : giou_loss(found, box, by_corner);
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
      return body(OverlapLoss<T, false>{static_cast<T>(b.max_log_size)});
    case BoxLossKind::kCiou:
      return body(OverlapLoss<T, true>{static_cast<T>(b.max_log_size)});
  }
}

// The IoU of a foreground anchor's predicted box with its own.
template <class Stored, class T = Loaded<Stored>>
RETINA_HOST_DEVICE T predicted_iou(const DecodedBoxes<Stored>& p, const Level<Stored>& level,
                                   const AnchorPlace& place) {
  const Stored* const delta = level.deltas + level.place(place.image, place.anchor, 4);
  T read[4], found[4], size[2];
  for (int i = 0; i < 4; ++i) read[i] = loaded(delta[i]);
  decode_box(read, p.anchors + 4 * place.anchor, p.max_log_size, found, size);
  const T* const truth = p.boxes + 4 * place.match;
  return box_iou(found, box_area(found), truth, box_area(truth));
}

// A term of the class loss and its derivative by the logit: of the focal loss, and of any kind.
// `quality` is predicted_iou(), which only foreground terms of other kinds than kFocal read.
template <class Stored, class T = Loaded<Stored>>
RETINA_HOST_DEVICE FocalTerm<T> plain_class_term(const Focal<Stored>& f, T logit, bool foreground) {
  const T weight = foreground ? f.alpha : T(1) - f.alpha;
  const FocalTerm<T> term = focal_term(foreground ? -logit : logit, f.gamma);
  return {weight * term.value, (foreground ? -weight : weight) * term.derivative};
}
template <class Stored, class T = Loaded<Stored>>
RETINA_HOST_DEVICE FocalTerm<T> class_term(const Focal<Stored>& f, T logit, bool foreground,
                                           T quality) {
  if (!foreground || f.kind == ClassLossKind::kFocal) return plain_class_term(f, logit, foreground);
  if (f.kind == ClassLossKind::kQualityFocal) return quality_term(logit, quality);
  // Zhang et al. 2021, eq. 2: where the boxes do not meet, as background.
  return quality <= T(0) ? plain_class_term(f, logit, false) : varifocal_term(logit, quality);
}

}  // namespace retina::kernels
