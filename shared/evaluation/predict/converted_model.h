// A loaded inference model (retina-convert's output), run on the CPU: it takes u8 images of any
// size and does everything itself (shared/onnx/onnx_file.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/onnx/inference_header.h"
#include "shared/onnx/onnx_session.h"

namespace retina {

// Thresholds that replace those of the conversion.
struct ConvertedThresholds {
  std::optional<double> score{}, nms{};
  std::optional<int> max_detections{};
};

class ConvertedModel {
 public:
  // Loads a model. Throws kNoInput, kIo, kData (damaged, not one of ours:
  // shared/onnx/onnx_check.h), and kUnavailable if the build has no OpenVINO.
  explicit ConvertedModel(const std::string& path);
  // Takes a model that was just written and is not in a file yet; `path` is for messages.
  ConvertedModel(std::string model, const InferenceHeader& header, const std::string& path);

  const std::string& path() const { return path_; }
  const InferenceHeader& header() const { return header_; }
  // Throws kConfig naming the file if the model is for another task.
  void check_task(Task wanted) const;
  // Throws kConfig for a detector without its post-processing.
  void check_postprocess() const;
  // Replaces the thresholds. Throws kConfig if the model has no such threshold, or if
  // max_detections exceeds what it was converted with.
  void set_thresholds(const ConvertedThresholds& thresholds);

  // Run the model on images: u8 [N, 3, H, W]. The outputs are returned unchecked: the caller
  // validates their shapes and dtypes. All throw kData if the model has no such output. A
  // detector's boxes [N, D, 4] f32 (xyxy, px of the images), scores [N, D] f32, labels [N, D] i64,
  // counts [N] i64; without postprocess boxes [N, A, 4] and scores [N, A, K] of all anchors.
  std::vector<at::Tensor> detections(const at::Tensor& images);
  // Returns a classifier's outputs, [N, K] f32 each.
  at::Tensor logits(const at::Tensor& images);
  at::Tensor probabilities(const at::Tensor& images);

 private:
  std::vector<OnnxOutput> run(const at::Tensor& images);
  at::Tensor named(const std::vector<OnnxOutput>& outputs, const std::string& name) const;

  std::string path_;
  InferenceHeader header_;
  std::string model_;
  std::optional<int> max_detections_{};  // fewer than the model's own
  // Opened on first use: thresholds that change before cost nothing.
  std::unique_ptr<OnnxSession> session_{};
};

// Throws kData: the model's answer has another form than onnx_file.h describes. `problem` follows
// "its answer".
[[noreturn]] void refuse_answer(const std::string& path, const std::string& problem);

}  // namespace retina
