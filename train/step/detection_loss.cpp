#include "train/step/detection_loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/ops/box_loss.h"
#include "shared/ops/focal_loss.h"

namespace retina {
namespace {

void check_range(const char* name, double value, double least, double most) {
  if (value >= least && value <= most) return;
  throw Error(ErrorKind::kUsage, cat("loss ", name, ": out of range (got ", shortest(value),
                                     ", want ", shortest(least), " to ", shortest(most), ")"));
}

}  // namespace

void LossOptions::validate() const {
  check_range("focal alpha", focal_alpha, 0, 1);
  check_range("focal gamma", focal_gamma, 0, 100);
  check_range("smooth L1 beta", box.smooth_l1_beta, 1e-6, 1e6);
  check_range("target std", box.target_std, 1e-6, 1e6);
  check_range("foreground IoU", match.foreground_iou, 0, 1);
  check_range("background IoU", match.background_iou, 0, match.foreground_iou);
}

DetectionLoss detection_loss(const HeadOutputs& outputs, const at::Tensor& anchors,
                             const std::vector<BoxTargets>& targets, const LossOptions& options,
                             std::int64_t images_global) {
  RETINA_CHECK(images_global >= 1);
  RETINA_CHECK(static_cast<std::int64_t>(targets.size()) == outputs.logits.size(0));
  const auto type = anchors.options();
  std::vector<at::Tensor> boxes, labels, matches;
  std::vector<double> shares;  // of each slot in the step's mean
  std::int64_t first_box = 0;
  for (const BoxTargets& target : targets) {
    if (target.counts) {
      boxes.push_back(target.boxes.to(type).view({-1, 4}));
      labels.push_back(target.labels.to(anchors.device()));
      matches.push_back(match_anchors(anchors, boxes.back(), options.match, first_box));
      first_box += boxes.back().size(0);
    } else {
      // Ignored everywhere: the kernels then write neither loss nor gradient for a pad slot.
      matches.push_back(at::full({anchors.size(0)}, kIgnored, type.dtype(at::kLong)));
    }
    shares.push_back(target.counts ? 1.0 / static_cast<double>(images_global) : 0.0);
  }
  if (boxes.empty()) {
    boxes.push_back(at::full({0, 4}, 0, type));
    labels.push_back(at::full({0}, 0, type.dtype(at::kLong)));
  }
  const at::Tensor all_boxes = at::cat(boxes), all_labels = at::cat(labels);  // [G, 4], [G]
  // A rank's pass may have no images.
  const at::Tensor all_matches =
      matches.empty() ? at::full({0, anchors.size(0)}, kIgnored, type.dtype(at::kLong))
                      : at::stack(matches);                              // [N, A]
  const at::Tensor foreground = (all_matches >= 0).sum(1).clamp_min(1);  // [N]
  const at::Tensor weights =
      at::tensor(shares, at::kDouble).to(type) / foreground.to(type.dtype());  // [N]
  const at::Tensor logits = outputs.logits.to(type.dtype());
  const at::Tensor deltas = outputs.deltas.to(type.dtype());
  const FocalOptions focal = {.alpha = options.focal_alpha, .gamma = options.focal_gamma};
  return {.classification = (focal_loss(logits, all_matches, all_labels, focal) * weights).sum(),
          .box_regression =
              (box_loss(deltas, anchors, all_boxes, all_matches, options.box) * weights).sum()};
}

}  // namespace retina
