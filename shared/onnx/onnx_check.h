// The check of an inference model: it must be byte for byte what write_onnx_model writes for its
// header, the trained numbers aside. The graph is built anew and compared with the file, so nothing
// in the file has to be interpreted before a runtime or protobuf reader sees it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/onnx/inference_header.h"

namespace retina {

// The files that retina-convert can write for one header.
class OnnxPattern {
 public:
  // Throws Error{kData} beginning with `subject` for a header that no model has.
  OnnxPattern(const InferenceHeader& header, const std::string& subject);

  // Returns the size of all of them, seal included.
  std::uint64_t file_bytes() const;

  // Returns the first part of `file` that differs from them, in words that follow the file's name;
  // nothing if it is one of them. The seal is left to check_onnx_seal.
  std::optional<std::string> difference(std::string_view file) const;

 private:
  // A part of all of the files, then trained numbers, which each has for itself.
  struct Piece {
    std::string name{}, bytes{};
    std::uint64_t trained_bytes = 0;
  };
  static Piece piece_of(const std::string& name, std::string_view tensor, std::string_view encoded);

  std::vector<Piece> pieces_{};
};

// Reads the header of a file's bytes and checks them whole. Throws Error{kData} beginning with
// `subject` unless they are an inference model that this version's retina-convert can have written.
InferenceHeader check_onnx_model(std::string_view file, const std::string& subject);

struct CheckedModel {
  InferenceHeader header{};
  std::string bytes{};  // the file's content
};
// Reads a file and checks it. Throws as read_onnx_file and check_onnx_model.
CheckedModel read_onnx_model(const std::string& path);

}  // namespace retina
