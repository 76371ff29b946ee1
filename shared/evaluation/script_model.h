// A loaded converted model (retina-convert's output): a TorchScript file that takes u8 images and
// does everything itself.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "shared/checkpoint/inference_file.h"

namespace retina {

// Thresholds that replace those a converted detector was made with.
struct ScriptThresholds {
  std::optional<double> score, nms;
  std::optional<int> max_detections;
};

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
  // Throws kConfig naming the file when the model is for another task.
  void check_task(Task wanted) const;
  void set_thresholds(const ScriptThresholds& thresholds);

  // The loaded module; seen by script_run.h's includers only.
  struct State;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

}  // namespace retina
