// Inference models as files: one ONNX model (ModelProto) each, sealed: its last entry of metadata
// holds the xxh3 of everything before it, which reveals damage, not malice. onnx_check.h defines
// the allowed content of a file. It takes u8 RGB `images` [N, 3, H, W]. A detector gives `boxes`
// [N, D, 4] (xyxy, px of the images), `scores` [N, D], `labels` [N, D] (i64, dense), `counts` [N];
// without postprocess `boxes` [N, A, 4] and `scores` [N, A, K] of every anchor; a classifier
// `probabilities` and `logits` [N, K].
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "shared/onnx/inference_header.h"

namespace retina {

// The names of a detector's thresholds, constants f32 [1]; part of the format, never rename.
inline constexpr const char* kOnnxScoreThreshold = "score_threshold";
inline constexpr const char* kOnnxNmsThreshold = "nms_threshold";

// Returns true if the file begins as an ONNX model does. Throws kNoInput.
bool is_onnx_file(const std::string& path);
// Returns true if the file names retina-convert as its producer, which is the second field of those
// files.
bool is_of_retina_convert(const std::string& path);

// Seals `model`, the bytes of a ModelProto, and publishes it at `path` (AtomicFile) after `verify`
// accepted the temporary file. Throws kCannotCreate, kIo, and what `verify` throws; the old file
// then stays.
void write_onnx_file(const std::string& path, std::string_view model,
                     const std::function<void(const std::string&)>& verify = {});

// Size of the seal, the file's last bytes.
inline constexpr std::size_t kOnnxSealBytes = 33;

// Hint for a seal that is not that of the model.
inline constexpr const char* kBrokenSealHint =
    "copy the file again, or convert the checkpoint again";

// Returns, for a file that ends with a seal, a checkpoint too (shared/checkpoint/sealed_file.h),
// the xxh3 of all but its last `end_bytes`, and those bytes. A shorter file is all end. Throws
// kNoInput, kIo.
struct HashBeforeEnd {
  std::uint64_t hash = 0;
  std::string end{};
};
HashBeforeEnd hash_before_end(const std::string& path, std::size_t end_bytes);

// Return what is wrong with the seal, of a file or of a file's bytes, in words that follow the
// file's name; empty for an intact model. Throw kNoInput, kIo.
std::string onnx_seal_problem(const std::string& path);
std::string onnx_seal_problem(std::string_view file);
// Throw kData if the seal is wrong.
void check_onnx_seal(const std::string& path);
void check_onnx_seal(std::string_view file, const std::string& path);

// Return the model's description. `check_onnx_seal` is left to the caller: only the header is read.
// Throw kNoInput, kIo, and kData: not an inference model, written by a newer version.
InferenceHeader peek_inference_header(const std::string& path);
InferenceHeader peek_inference_header(std::string_view file, const std::string& path);
// Reads the whole file and checks its seal. Throws as peek_inference_header(), and kData for a
// damaged file.
InferenceHeader read_inference_header(const std::string& path);

// Gives the constant f32 [1] called `name` another value; returns false if there is none.
bool set_onnx_number(std::string& model, const std::string& name, float number);

}  // namespace retina
