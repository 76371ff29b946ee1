// A loaded converted model (retina-convert's output): a file that takes u8 images and does
// everything itself.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "shared/checkpoint/inference_file.h"

namespace retina {

class ConvertedRuntime;

// Thresholds that replace those a converted detector was made with.
struct ConvertedThresholds {
  std::optional<double> score{}, nms{};
  std::optional<int> max_detections{};
};

class ConvertedModel {
 public:
  // `device`: "cpu", "cuda:0"; ONNX models run on the CPU. Unless `trusted`, the file may hold and
  // do only what models of retina-convert do (check_inference_file, check_script,
  // check_onnx_model). Throws kNoInput, kIo, kData (damaged, not one of ours, or not to be
  // trusted), and kUnavailable for an ONNX model where the build has no OpenVINO.
  ConvertedModel(const std::string& path, const std::string& device, bool trusted = false);
  // An ONNX model that is not in a file yet; `path` is for messages.
  ConvertedModel(std::string onnx_model, const InferenceHeader& header, const std::string& path);
  ~ConvertedModel();
  ConvertedModel(ConvertedModel&&) noexcept;
  ConvertedModel& operator=(ConvertedModel&&) noexcept;

  const std::string& path() const { return path_; }
  const InferenceHeader& header() const { return header_; }
  // Throws kConfig naming the file when the model is for another task.
  void check_task(Task wanted) const;
  // Throws kConfig for one that the model has no place for.
  void set_thresholds(const ConvertedThresholds& thresholds);

  // Seen by converted_runtime.h's includers only.
  ConvertedRuntime& runtime() { return *runtime_; }

 private:
  std::string path_;
  InferenceHeader header_;
  std::unique_ptr<ConvertedRuntime> runtime_;
};

}  // namespace retina
