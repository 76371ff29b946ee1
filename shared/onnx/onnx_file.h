// Inference models as files: one ONNX model (ModelProto) each, sealed: its last entry of metadata
// holds the xxh3 of everything before it, which reveals damage, not malice. onnx_check.h defines
// the allowed content of a file. It takes u8 RGB `images` [N, 3, H, W]. A detector gives `boxes`
// [N, D, 4] (xyxy, px of the images), `scores` [N, D], `labels` [N, D] (i64, dense), `counts` [N];
// without postprocess `boxes` [N, A, 4] and `scores` [N, A, K] of every anchor; a classifier
// `probabilities` and `logits` [N, K].
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "shared/onnx/inference_header.h"

namespace retina {

// The names of a detector's thresholds, constants f32 [1]; part of the format, never rename.
inline constexpr const char* kOnnxScoreThreshold = "score_threshold";
inline constexpr const char* kOnnxNmsThreshold = "nms_threshold";

// Size of the seal, the file's last bytes.
inline constexpr std::size_t kOnnxSealBytes = 33;

// Returns true if the file begins as an ONNX model does. Throws kNoInput.
bool is_onnx_file(const std::string& path);

// Seals `model`, the bytes of a ModelProto, and publishes it at `path` (AtomicFile) after `verify`
// accepted the temporary file. Throws kCannotCreate, kIo, and what `verify` throws; the old file
// then stays.
void write_onnx_file(const std::string& path, std::string_view model,
                     const std::function<void(const std::string&)>& verify = {});

// Returns the file's bytes. Throws as read_file, and kData if there are more than protobuf allows.
std::string read_onnx_file(const std::string& path);

// Throws kData if the seal of a file's bytes is missing or wrong, saying what the file is.
void check_onnx_seal(std::string_view file, const std::string& path);

// Return the model's description once the seal has been checked. Throw kData (not an inference
// model, damaged, written by another version) and, of a file, as read_onnx_file.
InferenceHeader read_inference_header(std::string_view file, const std::string& path);
InferenceHeader read_inference_header(const std::string& path);

// Gives the constant f32 [1] called `name` another value; returns false if there is none.
bool set_onnx_number(std::string& model, const std::string& name, float number);

}  // namespace retina
