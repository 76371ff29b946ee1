// A whole ONNX model before it is bytes: what is written, and what a file is compared with. Not
// together with LibTorch, whose headers carry another protobuf.
#pragma once

#include <onnx/onnx_pb.h>

#include <optional>
#include <string>
#include <vector>

#include "shared/onnx/inference_header.h"
#include "shared/onnx/parts.h"

namespace retina {

struct OnnxDraft {
  onnx::ModelProto model{};
  std::vector<NumberRule> number_rules{};  // of each initializer
  std::vector<std::string> rounded_values{};
};

// `ranges` as OnnxGraph takes them; where they are unset, the arrays need no numbers. The header's
// task must be that of its config.
OnnxDraft draft_onnx_model(const InferenceHeader& header, const NetworkArrays& arrays,
                           const std::optional<ValueRanges>& ranges);

}  // namespace retina
