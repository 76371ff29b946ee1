// What an inference model may hold: byte for byte what write_onnx_model writes for the header in
// it, the trained numbers aside. The graph is built anew and compared with the file, so nothing in
// the file has to be judged: an operator, an attribute, a name, an edge, a shape, a constant that
// is another one is named, and no runtime and no protobuf reader sees the file before.
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

  // The size of all of them, seal included.
  std::uint64_t file_bytes() const { return file_bytes_; }

  // The first difference between `file` and them, in words that follow the file's name: operators,
  // attributes, names, opset, inputs, outputs, types, shapes, constants, metadata; of trained
  // weights type and shape, and that they are finite. Nothing where it is one of them. The seal is
  // left to check_onnx_seal. Linear in the size of the file, or in file_bytes where that is less.
  std::optional<std::string> difference(std::string_view file) const;

 private:
  struct Parts;
  std::unique_ptr<const Parts> parts_;
  std::uint64_t file_bytes_ = 0;
};

// The next step where a file is refused.
inline constexpr const char* kForeignModelHint =
    "convert the checkpoint with this version's retina-convert; retina-eval --detections scores "
    "what any model found";

struct CheckedModel {
  InferenceHeader header{};
  std::string bytes{};  // the file's
  // What retina-convert never writes; empty for a model that it can have written.
  std::string problem{};
  // `problem` is that the file was damaged, or changed by a program that does not seal.
  bool is_broken = false;

  // Throws Error{kData} for a problem.
  void throw_if_foreign(const std::string& path) const;
};

// Reads and checks an inference model, reading no more than a model with its header can have.
// Throws kNoInput, kIo, and kData for a file without a header; what `problem` says is left to the
// caller.
CheckedModel read_onnx_model(const std::string& path);

// The same of a file's bytes. Throws Error{kData} beginning with `subject` for a problem, too.
InferenceHeader check_onnx_model(std::string_view file, const std::string& subject);

}  // namespace retina
