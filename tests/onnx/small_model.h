// Inference models with synthetic weights, without LibTorch.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>

#include "shared/model/config.h"
#include "shared/onnx/inference_header.h"
#include "shared/onnx/onnx_model.h"

namespace retina {

// A detector of 3 classes on ResNet-18, or a classifier on cifar-cnn, the smallest networks; v1 of
// torchvision.
ModelConfig detector_config(const std::string& backbone = "resnet18");
ModelConfig classifier_config(const std::string& backbone = "cifar-cnn");
InferenceHeader header_of(const ModelConfig& config, const OnnxForm& form = {});

// What the writer makes of it, before the seal; with int8, ranges of -1 to 1.
OnnxModel small_model(const InferenceHeader& header);
// The same as a message, for tests that change it.
onnx::ModelProto as_message(const std::string& model);

// A file's bytes: the model with its seal.
std::string sealed(const std::string& model);

}  // namespace retina
