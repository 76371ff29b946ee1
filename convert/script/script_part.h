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

  // Stores a convolution and returns the call "torch.conv2d(INPUT, ...)", padded by kernel / 2
  // unless it is not.
  struct ConvCall {
    int stride = 1;
    bool padded = true;
  };
  std::string conv(const std::string& conv_name, const ConvWeights& weights,
                   const std::string& input, const ConvCall& call);
  std::string conv(const std::string& conv_name, const ConvWeights& weights,
                   const std::string& input) {
    return conv(conv_name, weights, input, {});
  }
  // Stores a dense layer and returns the call "torch.linear(INPUT, ...)".
  std::string linear(const std::string& layer_name, const ConvWeights& weights,
                     const std::string& input);
};

// input.forward(images [N, 3, H, W] uint8, size [h, w]) -> [N, 3, h', w'] f32, normalised, resized,
// padded with zeros to a multiple of 32; input.resized_size(H, W) -> [h, w].
ScriptPart input_script(const ModelConfig& config);

// input.forward(images [N, 3, H, W] uint8) -> [N, 3, S, S] f32, normalised: the middle square of
// the resized images (middle_square, shared/image/frame.h).
ScriptPart square_input_script(const ModelConfig& config);

// body.forward(pixels) -> (C3, C4, C5): the ResNet, batch norm folded into the convolutions. What
// its tensors' names begin with is the network's body_prefix().
ScriptPart body_script(const ModelConfig& config, const Weights& weights,
                       const std::string& body_prefix);

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

// The first lines of a method that is given `images`: what is wrong with them in words.
std::string image_checks();

// The methods of the whole detector, which joins the parts: outputs, detect, forward.
std::string model_source(const ModelConfig& config, const PostprocessOptions& options);

// A classifier's parts after its input, body and classification (features -> logits [N, K]), for
// the network that config.backbone names; and the methods of the whole: logits, forward.
std::vector<ScriptPart> classifier_parts(const ModelConfig& config, const Weights& weights);
std::string classifier_source(const ModelConfig& config);

}  // namespace retina
