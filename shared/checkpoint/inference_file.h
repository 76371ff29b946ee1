// The inference model as one sealed file, written by retina-convert: a TorchScript archive or an
// ONNX model. It takes uint8 RGB [N, 3, H, W]. A detector returns boxes [N, D, 4] (xyxy, input px),
// scores [N, D], labels [N, D] (i64, dense), counts [N], a tuple in TorchScript; a classifier
// probabilities [N, K] (and logits, in TorchScript a method). This header knows what is stored
// beside the network; what runs it is ConvertedModel (shared/evaluation/converted).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/task.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/onnx/model_format.h"

namespace retina {

// What kind of model a sealed file holds.
enum class ModelFileKind { kCheckpoint, kInference };

// Checks the seal, then looks inside. Throws as load_checkpoint.
ModelFileKind model_file_kind(const std::string& path);

// The record `extra/retina.json` of a TorchScript archive, the metadata `retina.json` of an ONNX
// model.
struct InferenceHeader {
  Task task = Task::kDetection;
  std::string config_json = "{}";  // the checkpoint's: {"model": ..., "train": ...}
  Categories categories{};
  std::uint64_t checkpoint_hash = 0;  // of the checkpoint it was made from
  std::optional<OnnxForm> onnx{};     // unset: TorchScript
  // A detector's defaults that it was made with; the module's attributes of these names, or the
  // ONNX model's constants, can be changed.
  double score_threshold = 0.05;
  double nms_threshold = 0.5;
  int max_detections = 300;

  std::string to_json() const;
};

// The name of the extra file inside the archive that holds InferenceHeader::to_json().
inline constexpr const char* kInferenceHeaderFile = "retina.json";
// Its record in the zip; no checkpoint has one.
std::string inference_header_record();

// Checks the seal and reads the header. Throws kNoInput, kIo, and kData (damaged, not an inference
// model of retina-convert, written by a newer version).
InferenceHeader read_inference_header(const std::string& path);

// The same of an ONNX model's bytes, whose seal is not looked at; `path` is for messages.
InferenceHeader read_onnx_header(std::string_view model, const std::string& path);

// Throws kData when loading the TorchScript file could do more than load
// (foreign/script_archive.h).
void check_inference_file(const std::string& path);

}  // namespace retina
