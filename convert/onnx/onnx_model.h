// A trained network as an ONNX model: u8 pictures in, detections or probabilities out.
#pragma once

#include <string>

#include "convert/onnx/parts.h"

namespace retina {

struct OnnxRequest {
  OnnxForm form{};
  OnnxMetadata metadata{};
  ValueRanges ranges{};  // for int8: of the values that the f32 model names
};

struct OnnxModel {
  std::string bytes{};
  std::vector<std::string> rounded_values{};  // tensors that int8 rounds, by their names
};

// Input `images`, u8 [N, 3, H, W] RGB. Outputs
// as inference_file.h has them: `boxes`, `scores`, `labels`, `counts`; without postprocess `boxes`
// [N, A, 4] and `scores` [N, A, K], anchors as grid_anchors has them.
// `body_prefix`: what the names of the ResNet's tensors begin with.
OnnxModel onnx_detector(const ModelConfig& config, const NetworkArrays& arrays,
                        const std::string& body_prefix, const PostprocessOptions& postprocess,
                        const OnnxRequest& request);
// Outputs `probabilities` and `logits`, f32 [N, K].
OnnxModel onnx_classifier(const ModelConfig& config, const NetworkArrays& arrays,
                          const OnnxRequest& request);

}  // namespace retina
