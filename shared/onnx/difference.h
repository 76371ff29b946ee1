// Differences between a file's graph and the wanted one, in words for a message. Messages are
// protobuf's, as bytes; those of the file are untrusted (wire.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shared/onnx/graph.h"
#include "shared/onnx/wire.h"

namespace retina {

// A stored tensor (TensorProto).
struct WantedTensor {
  std::string name{};
  std::string begin{};    // the message up to its numbers
  std::string numbers{};  // empty if the rule leaves them open
  std::uint64_t number_bytes = 0;
  NumberRule rule = NumberRule::kEqual;
  bool is_half = false;  // f16
  std::uint64_t size_bytes() const {
    return begin.size() + wire_bytes(onnx_field::kTensorRaw, number_bytes);
  }
};

// Returns the first text field of that number; empty if there is none.
std::string_view text_of(std::string_view message, std::uint32_t number);
// Returns the name in quotation marks, short, on one line.
std::string quoted_name(std::string_view name);
// Returns "graph" for ModelProto's field 7.
std::string model_field_name(std::uint32_t number);

// Describe how two messages differ; `place` counts from 0.
std::string node_difference(std::size_t place, std::string_view got, std::string_view want);
std::string tensor_difference(std::size_t place, std::string_view got, const WantedTensor& want);

}  // namespace retina
