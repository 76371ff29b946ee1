// ONNX models as bytes (ModelProto): what they say of themselves, what they may hold, and the few
// numbers in them that can be changed. Whether a file is whole tells its seal
// (shared/checkpoint/sealed_file.h). No LibTorch, whose headers carry another protobuf.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace retina {

// The names of a detector's thresholds, constants f32 [1]; part of the format, never rename.
inline constexpr const char* kOnnxScoreThreshold = "score_threshold";
inline constexpr const char* kOnnxNmsThreshold = "nms_threshold";

// The metadata's value at `key`. Throws Error{kData} beginning with `subject` when the bytes are
// not an ONNX model or have no such entry.
std::string onnx_metadata(std::string_view model, const std::string& key,
                          const std::string& subject);

// Gives the constant f32 [1] called `name` another value; false when there is none. Throws as
// onnx_metadata.
bool set_onnx_number(std::string& model, const std::string& name, float number,
                     const std::string& subject);

// The operators that models of retina-convert use, sorted
// (OnnxFile.OperatorsAreThoseOfTheModelsThatTheConverterMakes).
std::span<const std::string_view> onnx_operators();

// Throws Error{kData} beginning with `subject` for what no model of retina-convert has: an operator
// outside onnx_operators() or of another domain, a graph inside a node, a function, a tensor that
// lies in another file.
void check_onnx_model(std::string_view model, const std::string& subject);

}  // namespace retina
