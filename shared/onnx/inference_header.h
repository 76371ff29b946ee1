// The description of an inference model, beside its network, and the choices of its maker.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "shared/anchor/anchor.h"
#include "shared/base/choices.h"
#include "shared/base/task.h"
#include "shared/coco/categories.h"

namespace retina {

// Storage of the weights of convolutions and dense layers. f32; f16: rounded to 16 bits, computed
// in f32; int8: the convolutions' and their inputs rounded to 8 bits, for CPUs that multiply such
// numbers fast. Biases stay f32.
enum class WeightType { kF32, kF16, kInt8 };

// Words for them on command lines and in models; part of the format, never rename.
inline const Choices<WeightType> kWeightTypes = {
    {"f32", WeightType::kF32}, {"f16", WeightType::kF16}, {"int8", WeightType::kInt8}};

struct OnnxForm {
  WeightType weights = WeightType::kF32;
  // Size of all images, for runtimes that want every size known; unset: any.
  std::optional<PixelSize> image{};
  // For a detector: false leaves the choice of the best and suppression to the runtime; the model
  // gives every anchor's box and scores.
  bool postprocess = true;
};

// Key of the model's metadata that holds InferenceHeader::to_json(). Part of the format.
inline constexpr const char* kInferenceHeaderKey = "retina.json";

struct InferenceHeader {
  Task task = Task::kDetection;
  std::string config_json = "{}";  // the checkpoint's: {"model": ..., "train": ...}
  Categories categories{};
  std::uint64_t checkpoint_hash = 0;  // hash of the checkpoint it was made from
  OnnxForm form{};
  // Thresholds built into a detector.
  double score_threshold = 0.05;
  double nms_threshold = 0.5;
  int max_detections = 300;

  std::string to_json() const;
};

// Parses a header. Throws Error{kData} naming `path`: not such a text, written by a newer version,
// a value that no model has.
InferenceHeader parse_inference_header(std::string_view json, const std::string& path);

}  // namespace retina
