// The inference model's TorchScript, stage by stage: each function writes the source of one
// submodule for a configuration and names the tensors that the source uses. The lines are unrolled
// by layer, so that `print(model.body.code)` reads like the network.
#pragma once

#include <string>
#include <vector>

#include "convert/script/weights.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/model/config.h"
#include "shared/model/postprocess.h"

namespace retina {

// A submodule: `self.NAME` of the tensors, and one or more methods.
struct ScriptPart {
  std::string name;
  NamedTensors tensors{};
  std::string source{};

  // Appends "    LINE\n", the body of a method.
  void line(const std::string& text) { source += "    " + text + "\n"; }

  // Stores a convolution and returns the call "torch.conv2d(INPUT, ...)", padded by kernel / 2.
  std::string conv(const std::string& conv_name, const ConvWeights& weights,
                   const std::string& input, int stride = 1);
};

// input.forward(images [N, 3, H, W] uint8, size [h, w]) -> [N, 3, h', w'] f32, normalised, resized,
// padded with zeros to a multiple of 32; input.resized_size(H, W) -> [h, w].
ScriptPart input_script(const ModelConfig& config);

// body.forward(pixels) -> (C3, C4, C5): the ResNet, batch norm folded into the convolutions.
ScriptPart body_script(const ModelConfig& config, const Weights& weights);

// pyramid.forward(C3, C4, C5) -> [P3, ..., P7]
ScriptPart pyramid_script(const ModelConfig& config, const Weights& weights);

// classification.forward([P3, ..., P7]) -> logits of each level, [N, a, K];
// regression.forward likewise -> box deltas, [N, a, 4].
ScriptPart classification_script(const ModelConfig& config, const Weights& weights);
ScriptPart regression_script(const ModelConfig& config, const Weights& weights);

// anchors.forward(h', w') -> anchors of each level, [a, 4] xyxy px of the padded image.
ScriptPart anchors_script(const ModelConfig& config);

// suppression.forward(boxes [M, 4], scores [M], labels [M], nms_threshold, max_detections) ->
// indices of the kept ones, best first: the same as batched_nms (nms.h), cut to max_detections.
ScriptPart suppression_script();

// The methods of the whole model, which joins the parts: outputs, detect, forward.
std::string model_source(const ModelConfig& config, const PostprocessOptions& options);

}  // namespace retina
