// A trained network as an ONNX model: u8 images in, detections or probabilities out (onnx_file.h).
// The graph follows from the header alone; the trained numbers from the network.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shared/onnx/inference_header.h"
#include "shared/onnx/parts.h"

namespace retina {

struct OnnxModel {
  std::string bytes{};                        // a ModelProto, without seal
  std::vector<std::string> rounded_values{};  // tensors that int8 rounds, by their names
};

// Writes the model. `ranges`: for int8, of the values that the f32 model names. ONNX's own checker
// and its shape inference accept the model, or this throws Error{kInternal}. Anchors are in the
// order of grid_anchors. The metadata are the header, for retina-eval, and `names` and
// `category_ids`, a class a line, for everybody else.
OnnxModel write_onnx_model(const InferenceHeader& header, const NetworkArrays& arrays,
                           const ValueRanges& ranges);

// Writes the model without the checks. If `ranges` are unset the arrays need no numbers, and
// trained tensors are stored without theirs: for comparisons with a file (onnx_check.h).
OnnxModel draft_onnx_model(const InferenceHeader& header, const NetworkArrays& arrays,
                           const std::optional<ValueRanges>& ranges);

}  // namespace retina
