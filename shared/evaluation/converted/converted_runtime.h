// What runs a converted model, by the format of its file. Seen by this room and by proofs.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "shared/checkpoint/inference_file.h"
#include "shared/evaluation/converted/converted_model.h"

namespace retina {

class ConvertedRuntime {
 public:
  virtual ~ConvertedRuntime() = default;

  // images: u8 [N, 3, H, W] on `device()`. The answers are as the file gives them: who asks checks
  // their shapes. All throw Error{kData} when the file has no such answer.
  // A detector's boxes, scores, labels, counts; without postprocess boxes and scores of all
  // anchors.
  virtual std::vector<at::Tensor> detections(const at::Tensor& images) = 0;
  // A classifier's.
  virtual at::Tensor logits(const at::Tensor& images) = 0;
  virtual at::Tensor probabilities(const at::Tensor& images) = 0;

  virtual at::Device device() const = 0;
  virtual void set_thresholds(const ConvertedThresholds& thresholds) = 0;
};

// Both throw as ConvertedModel's constructors.
std::unique_ptr<ConvertedRuntime> open_script(const std::string& path, const std::string& device,
                                              bool trusted);
std::unique_ptr<ConvertedRuntime> open_onnx(std::string model, const std::string& path,
                                            const InferenceHeader& header, bool trusted);

// Throws kData: the model's answer has another form than inference_file.h says. `problem` follows
// "its answer".
[[noreturn]] void refuse_answer(const std::string& path, const std::string& problem);

}  // namespace retina
