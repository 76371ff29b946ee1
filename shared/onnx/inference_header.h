// What an inference model says of itself, beside its network.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shared/base/task.h"
#include "shared/coco/category.h"
#include "shared/onnx/model_format.h"

namespace retina {

// The entry of the model's metadata that holds InferenceHeader::to_json(). Part of the format.
inline constexpr const char* kInferenceHeaderKey = "retina.json";

struct InferenceHeader {
  Task task = Task::kDetection;
  std::string config_json = "{}";  // the checkpoint's: {"model": ..., "train": ...}
  Categories categories{};
  std::uint64_t checkpoint_hash = 0;  // of the checkpoint it was made from
  OnnxForm form{};
  // Built into a detector.
  double score_threshold = 0.05;
  double nms_threshold = 0.5;
  int max_detections = 300;

  std::string to_json() const;
};

// Throws Error{kData} naming `path`: not such a text, written by a newer version, a value that no
// model has.
InferenceHeader parse_inference_header(std::string_view json, const std::string& path);

}  // namespace retina
