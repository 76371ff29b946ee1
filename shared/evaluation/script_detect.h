// Detection with a converted model: a TorchScript file that takes u8 images and does everything
// itself. Same contract as `detect` with a RetinaNet.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/checkpoint/inference_file.h"
#include "shared/evaluation/detect.h"

namespace retina {

// Thresholds that replace those a converted model was made with.
struct ScriptThresholds {
  std::optional<double> score, nms;
  std::optional<int> max_detections;
};

// A loaded converted model (retina-convert's output).
class ScriptModel {
 public:
  // `device`: "cpu", "cuda:0". Unless `trusted`, the file may hold and do only what models of
  // retina-convert do (check_inference_file, check_script). Throws kNoInput, kIo, and kData
  // (damaged, not one of ours, or not to be trusted).
  ScriptModel(const std::string& path, const std::string& device, bool trusted = false);
  ~ScriptModel();
  ScriptModel(ScriptModel&&) noexcept;
  ScriptModel& operator=(ScriptModel&&) noexcept;

  const InferenceHeader& header() const;
  void set_thresholds(const ScriptThresholds& thresholds);

  // The loaded module; seen by script_detect.cpp only.
  struct State;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// Like `detect(RetinaNet&, ...)`: images of equal size may share a batch. `options.postprocess`
// is not used, `options.precision` must be kFp32. Throws kData when the model's answer does not
// have the form that inference_file.h describes.
std::vector<Detection> detect(ScriptModel& model, const PictureSource& pictures,
                              Communicator& ranks, const DetectOptions& options);

}  // namespace retina
