#include "convert/verification/anchor_verification.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/max.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <limits>

#include "convert/verification/network_input.h"
#include "convert/verification/verification_failure.h"
#include "convert/verification/verification_images.h"
#include "shared/ops/box_coder.h"

namespace retina {
namespace {

struct Anchors {
  at::Tensor boxes, scores;  // [A, 4] px of the image, [A, K]
};

Anchors run_reference(RetinaNet& model, const Image& image, c10::Device device) {
  const ModelConfig& config = model.config();
  const auto [pixels, size, padded] = network_input(image, config);
  const HeadOutputs outputs = model.forward(pixels.to(device));
  const at::Tensor deltas = all_levels(outputs.deltas)[0];
  const at::Tensor boxes =
      clip_boxes(decode_boxes(deltas, anchors_for(config, padded, deltas.options())), size);
  const float across = static_cast<float>(image.width) / static_cast<float>(size.width);
  const float down = static_cast<float>(image.height) / static_cast<float>(size.height);
  return {.boxes = (boxes * at::tensor({across, down, across, down}, deltas.options())).cpu(),
          .scores = at::sigmoid(all_levels(outputs.logits)[0]).cpu()};
}

// The largest, or infinity where one is not finite.
double largest(const at::Tensor& differences) {
  const double found = differences.max().item<double>();  // NaN, where one is
  return found <= std::numeric_limits<double>::max() ? found
                                                     : std::numeric_limits<double>::infinity();
}

}  // namespace

AnchorMatch compare_anchors(ConvertedModel converted, RetinaNet& model,
                            const VerificationInputs& inputs) {
  const at::NoGradGuard no_grad;
  model.to(inputs.device);
  model.set_training(false);
  AnchorMatch total;
  for (const Image& image : inputs.images) {
    const Anchors want = run_reference(model, image, inputs.device);
    const std::vector<at::Tensor> got = converted.detections(planes_of(image));
    if (got.at(0)[0].sizes() != want.boxes.sizes() || got.at(1)[0].sizes() != want.scores.sizes()) {
      fail_verification(converted.path(), "it has another number of anchors");
    }
    const at::Tensor sides = (want.boxes.slice(1, 2) - want.boxes.slice(1, 0, 2)).amax(1, true);
    const at::Tensor unit = (sides / 100).clamp_min(1);
    total.anchor_count += want.boxes.size(0);
    total.largest_box_px =
        std::max(total.largest_box_px, largest((got[0][0] - want.boxes).abs() / unit));
    total.largest_score = std::max(total.largest_score, largest((got[1][0] - want.scores).abs()));
  }
  return total;
}

void require_equal(const AnchorMatch& result, const std::string& output) {
  if (!(result.largest_box_px <= kBoxTolerancePx)) {
    fail_verification(output, cat("boxes differ (got ", result.largest_box_px, " px, want at most ",
                                  kBoxTolerancePx, ")"));
  }
  if (!(result.largest_score <= kScoreTolerance)) {
    fail_verification(output, cat("scores differ (got ", result.largest_score, ", want at most ",
                                  kScoreTolerance, ")"));
  }
}

void require_alike(const AnchorMatch& result, const std::string& output) {
  if (result.largest_score <= 0.5) return;
  fail_verification(output, cat("with rounded weights a score is off by ", result.largest_score));
}

}  // namespace retina
