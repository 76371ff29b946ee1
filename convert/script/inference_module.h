// The inference model as a TorchScript module in memory.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <vector>

#include "shared/checkpoint/checkpoint.h"
#include "shared/model/classifier.h"
#include "shared/model/postprocess.h"
#include "shared/model/retinanet.h"

namespace retina {

// What is stored beside the network, readable from Python and C++ as the module's attributes
// `config`, `category_names`, `category_ids`, and of a detector `score_threshold`, `nms_threshold`,
// `max_detections`, which can be changed.
struct InferenceExtras {
  std::string config_json = "{}";
  Categories categories{};
  PostprocessOptions postprocess{};  // of a detector
};

// Compiles the module for the model's configuration and weights (which are copied).
//   forward(images [N, 3, H, W] uint8 RGB, any device the module is on)
//     -> boxes [N, D, 4] f32 xyxy px of the input, scores [N, D] f32 descending, labels [N, D] i64
//        dense, counts [N] i64; D = max_detections, zeros after an image's count
// The same detections in the same order as resize -> RetinaNet -> postprocess.
torch::jit::Module make_inference_module(const RetinaNet& model, const InferenceExtras& extras);

// The same for a classifier:
//   forward(images [N, 3, H, W] uint8 RGB) -> probabilities [N, K] f32; logits(images) -> [N, K]
//   f32
// What middle_square (shared/image/frame.h), warp_normalise and Classifier::forward give.
torch::jit::Module make_inference_module(const Classifier& model, const InferenceExtras& extras);

}  // namespace retina
