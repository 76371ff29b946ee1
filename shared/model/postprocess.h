// Converts head outputs to detections (Lin et al. 2017, section 4.1 "Inference"): threshold, best
// candidates per level, decode, clip, per-class non-maximum suppression.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "shared/anchor/anchor.h"
#include "shared/model/config.h"
#include "shared/model/heads.h"

namespace retina {

struct ImageDetections {
  at::Tensor boxes;   // [D, 4] f32 xyxy px of the resized image, inside it
  at::Tensor scores;  // [D] f32, descending
  at::Tensor labels;  // [D] i64 dense
};

// Returns the anchors of a padded image, [A, 4] xyxy px, on the CPU in f32 unless `options` say
// otherwise. Caches the last few results (thread-safe).
at::Tensor anchors_for(const ModelConfig& config, PixelSize padded, at::TensorOptions options = {});

// Returns the detections, one entry per image. `padded` is the network's input size, `image_sizes`
// the resized images' own sizes (boxes are clipped to them). Equals torchvision's
// postprocess_detections, order included (tests/parity). On a GPU as postprocess_together does it,
// with the results on the CPU. No gradient.
std::vector<ImageDetections> postprocess(const HeadOutputs& outputs, const ModelConfig& config,
                                         PixelSize padded,
                                         const std::vector<PixelSize>& image_sizes,
                                         const PostprocessOptions& options);

// Does the same by operations on all images together whose sizes do not depend on the detections,
// so that the CPU waits for a GPU once, when the results come in one copy. Differs if scores tie,
// and by the offsets of nms.h's batched_nms.
std::vector<ImageDetections> postprocess_together(const HeadOutputs& outputs,
                                                  const ModelConfig& config, PixelSize padded,
                                                  const std::vector<PixelSize>& image_sizes,
                                                  const PostprocessOptions& options);

}  // namespace retina
