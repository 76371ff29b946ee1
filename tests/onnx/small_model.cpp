#include "tests/onnx/small_model.h"

#include <cmath>

#include "shared/base/cat.h"
#include "shared/base/hash.h"

namespace retina {
namespace {

class SyntheticWeights : public NetworkArrays {
 public:
  LayerArrays layer(const std::string&, const LayerShape& shape) const override {
    return {.weight = filled(shape), .bias = filled({shape.front()})};
  }
  LayerArrays folded(const std::string& conv, const std::string&,
                     const LayerShape& shape) const override {
    return layer(conv, shape);
  }
  LayerArrays without_bias(const std::string& prefix, const LayerShape& shape) const override {
    return layer(prefix, shape);
  }
  Array row(const std::string&, std::int64_t count) const override { return filled({count}); }

 private:
  static Array filled(const LayerShape& shape) {
    std::size_t count = 1;
    for (const std::int64_t side : shape) count *= static_cast<std::size_t>(side);
    Array array{.shape = shape, .numbers = std::vector<float>(count)};
    for (std::size_t i = 0; i < count; ++i) {
      array.numbers[i] = 0.01F * (static_cast<float>(i % 7) - 3);
    }
    return array;
  }
};

}  // namespace

ModelConfig detector_config(const std::string& backbone) {
  ModelConfig config;
  config.backbone = backbone;
  config.class_count = 3;
  config.head_norm = HeadNorm::kNone;
  config.p6_from_c5 = false;
  config.min_side_px = 64;
  config.max_side_px = 96;
  return config;
}

ModelConfig classifier_config(const std::string& backbone) {
  ModelConfig config;
  config.task = Task::kClassification;
  config.backbone = backbone;
  config.class_count = 3;
  config.min_side_px = config.max_side_px = 12;
  return config;
}

InferenceHeader header_of(const ModelConfig& config, const OnnxForm& form) {
  InferenceHeader header{.task = config.task,
                         .config_json = cat(R"({"model":)", config.to_json(), "}"),
                         .checkpoint_hash = 7,
                         .form = form};
  for (int label = 0; label < config.class_count; ++label) {
    header.categories.push_back({.id = label + 1, .name = cat("class ", label)});
  }
  return header;
}

OnnxModel small_model(const InferenceHeader& header) {
  ValueRanges ranges;
  if (header.form.weights == WeightType::kInt8) {
    InferenceHeader exact = header;
    exact.form.weights = WeightType::kF32;
    for (const std::string& name :
         draft_onnx_model(exact, SyntheticWeights(), ranges).rounded_values) {
      ranges[name] = {.least = -1, .largest = 1};
    }
  }
  return draft_onnx_model(header, SyntheticWeights(), ranges);
}

onnx::ModelProto as_message(const std::string& model) {
  onnx::ModelProto message;
  message.ParseFromString(model);
  return message;
}

std::string sealed(const std::string& model) {
  return cat(model, std::string_view("\x72\x1f\x0a\x0bretina-xxh3\x12\x10", 17),
             hex64(xxh3(model)));
}

}  // namespace retina
