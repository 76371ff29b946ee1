// Converts a checkpoint's network to an ONNX model, verifies it and writes it. convert.h owns
// files, locks, the repository and the order of the steps.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "convert/options.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/evaluation/predict/converted_model.h"
#include "shared/image/image.h"
#include "shared/model/classifier.h"
#include "shared/model/retinanet.h"
#include "shared/onnx/onnx_model.h"

namespace retina {

class Conversion {
 public:
  // `options` must outlive this. The checkpoint's network runs on `device` for the verification.
  // Throws as trained_network and trained_classifier do.
  Conversion(const ConvertOptions& options, const Checkpoint& checkpoint, c10::Device device);

  // Writes options.output and verifies it on `images`, by OpenVINO on the CPU. With rounded weights
  // the f32 graph is verified first, in memory, and then the effect of rounding: for f16 how much
  // the answers differ, for int8 the accuracy on options.verification_data before and after.
  // Returns the findings, lines that begin with "verification: ". Throws Error{kAnswerNo} about the
  // output when the model differs from the network or, with rounded weights, has little in common
  // with it; also throws as write_onnx_file and accuracy_on.
  std::string publish(const InferenceHeader& header, const std::vector<Image>& images);

 private:
  // Returns the inference model, in memory. `ranges` are used for int8.
  OnnxModel onnx(const InferenceHeader& header, const ValueRanges& ranges) const;
  OnnxModel with_int8(const InferenceHeader& header, const OnnxModel& exact) const;
  // Compares the model with the network, less strictly where the model's weights are rounded.
  std::string verify(ConvertedModel model, const std::vector<Image>& images);
  std::string cost_of_int8(ConvertedModel exact, ConvertedModel rounded) const;

  const ConvertOptions& options_;
  c10::Device device_;
  std::variant<RetinaNet, std::unique_ptr<Classifier>> model_;
};

}  // namespace retina
