// What retina-convert makes of a checkpoint: a detector or a classifier. Files, locks, the
// repository and the order of things are the same for both (convert.h).
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>
#include <vector>

#include "convert/options.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/evaluation/predict/converted_model.h"
#include "shared/image/image.h"
#include "shared/onnx/onnx_model.h"

namespace retina {

struct ConversionInputs {
  const ConvertOptions& options;
  const Checkpoint& checkpoint;
  c10::Device device = c10::kCPU;  // of the proof
};

class Conversion {
 public:
  virtual ~Conversion() = default;

  // The inference model, in memory. `ranges`: for int8.
  virtual OnnxModel onnx(const InferenceHeader& header, const ValueRanges& ranges) const = 0;

  // Compares `model` with the checkpoint's network. Returns what it found in words, lines that
  // begin with "proof: ". Throws Error{kAnswerNo} about `output` when they differ.
  virtual std::string prove(ConvertedModel model, const std::string& output,
                            const std::vector<Image>& images) = 0;
  // The same of a model whose weights are rounded: tells how much it differs, and throws where it
  // has little in common with the checkpoint's.
  virtual std::string prove_rounded(ConvertedModel model, const std::string& output,
                                    const std::vector<Image>& images) = 0;
};

// Throws as trained_network and trained_classifier do.
std::unique_ptr<Conversion> make_detector_conversion(const ConversionInputs& inputs);
std::unique_ptr<Conversion> make_classifier_conversion(const ConversionInputs& inputs);

}  // namespace retina
