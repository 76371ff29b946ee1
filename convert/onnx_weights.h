// What the ONNX writer takes from a trained network: tensors, and what the file says of itself.
#pragma once

#include <string>

#include "convert/onnx/onnx_model.h"
#include "convert/script/weights.h"
#include "shared/checkpoint/inference_file.h"

namespace retina {

class OnnxWeights : public NetworkArrays {
 public:
  // `norm_eps`: of the batch norms.
  OnnxWeights(const NamedTensors& state, double norm_eps);

  LayerArrays layer(const std::string& prefix) const override;
  LayerArrays folded(const std::string& conv, const std::string& norm) const override;
  LayerArrays without_bias(const std::string& prefix) const override;
  Array at(const std::string& name) const override;

 private:
  Weights weights_;
  double norm_eps_;
};

// How the file is to be: its metadata are the header, for retina-eval, and `names` and
// `category_ids`, a class a line, for everybody else.
OnnxRequest request_of(const InferenceHeader& header, const ValueRanges& ranges);

}  // namespace retina
