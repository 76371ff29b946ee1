// The inference model as a file: one sealed TorchScript archive, written by retina-convert. Its
// module takes uint8 RGB [N, 3, H, W]. A detector returns the tuple boxes [N, D, 4] (xyxy, input
// px), scores [N, D], labels [N, D] (i64, dense), counts [N]; a classifier probabilities [N, K].
// This header knows what is stored beside the module; loading it is torch::jit::load, which for a
// file from elsewhere requires check_inference_file before and check_script
// (shared/evaluation/script_operators.h) after it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/task.h"
#include "shared/checkpoint/checkpoint.h"

namespace retina {

// What kind of model a sealed file holds.
enum class ModelFileKind { kCheckpoint, kInference };

// Checks the seal, then looks inside. Throws as load_checkpoint.
ModelFileKind model_file_kind(const std::string& path);

// The record `extra/retina.json` of an inference model.
struct InferenceHeader {
  Task task = Task::kDetection;
  std::string config_json = "{}";  // the checkpoint's: {"model": ..., "train": ...}
  Categories categories{};
  std::uint64_t checkpoint_hash = 0;  // of the checkpoint it was made from
  // A detector's defaults that it was made with; the module's attributes of these names can be
  // changed.
  double score_threshold = 0.05;
  double nms_threshold = 0.5;
  int max_detections = 300;

  std::string to_json() const;
};

// The name of the extra file inside the archive that holds InferenceHeader::to_json().
inline constexpr const char* kInferenceHeaderFile = "retina.json";

// Checks the seal and reads the header. Throws kNoInput, kIo, and kData (damaged, not an inference
// model of retina-convert, written by a newer version).
InferenceHeader read_inference_header(const std::string& path);

// Throws kData when loading the file could do more than load (foreign/script_archive.h).
void check_inference_file(const std::string& path);

}  // namespace retina
