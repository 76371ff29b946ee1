// The check of an inference model: it must be byte for byte what write_onnx_model writes for its
// header, the trained numbers aside. The graph is built anew and compared with the file, so nothing
// in the file has to be interpreted: a different operator, attribute, name, edge, shape or constant
// is named, before any runtime or protobuf reader sees the file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "shared/onnx/inference_header.h"

namespace retina {

// The files that retina-convert can write for one header.
class OnnxPattern {
 public:
  // Throws Error{kData} beginning with `subject` for a header that no model has.
  OnnxPattern(const InferenceHeader& header, const std::string& subject);
  ~OnnxPattern();

  // Returns the size of all of them, seal included.
  std::uint64_t file_bytes() const { return file_bytes_; }

  // Returns the first difference between `file` and them, in words that follow the file's name:
  // operators, attributes, names, opset, inputs, outputs, types, shapes, constants, metadata; of
  // trained weights type and shape, and that they are finite. Nothing if it is one of them. The
  // seal is left to check_onnx_seal. Linear in the size of the file, or in file_bytes if that is
  // less.
  std::optional<std::string> difference(std::string_view file) const;

 private:
  struct Parts;
  std::unique_ptr<const Parts> parts_;
  std::uint64_t file_bytes_ = 0;
};

// Hint for a refused file.
inline constexpr const char* kForeignModelHint =
    "convert the checkpoint with this version's retina-convert; retina-eval --detections scores "
    "what any model found";

struct CheckedModel {
  InferenceHeader header{};
  std::string bytes{};  // of the file
  // Difference from the models that retina-convert writes; empty if it can have written this one.
  std::string problem{};
  // True if `problem` is damage, or a change by a program that does not seal.
  bool is_broken = false;

  // Throws Error{kData} if there is a problem.
  void throw_if_foreign(const std::string& path) const;
};

// Reads and checks an inference model, reading no more than a model with its header can have.
// Throws kNoInput, kIo, and kData for a file without a header; `problem` is left to the caller.
CheckedModel read_onnx_model(const std::string& path);

// Checks a file's bytes. Throws Error{kData} beginning with `subject`, for a problem, too.
InferenceHeader check_onnx_model(std::string_view file, const std::string& subject);

}  // namespace retina
