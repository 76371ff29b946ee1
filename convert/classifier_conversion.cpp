#include "convert/conversion.h"
#include "convert/onnx_weights.h"
#include "convert/verification/classifier_verification.h"
#include "shared/base/cat.h"
#include "shared/evaluation/predict/trained_network.h"

namespace retina {
namespace {

class ClassifierConversion : public Conversion {
 public:
  explicit ClassifierConversion(const ConversionInputs& inputs)
      : device_(inputs.device),
        model_(trained_classifier(inputs.checkpoint, inputs.options.checkpoint)) {}

  OnnxModel onnx(const InferenceHeader& header, const ValueRanges& ranges) const override {
    return write_onnx_model(header, OnnxWeights(state_of(*model_), model_->config().norm_eps),
                            ranges);
  }

  std::string prove(ConvertedModel model, const std::string& output,
                    const std::vector<Image>& images) override {
    const ScoreMatch found =
        compare_models(std::move(model), *model_, {.images = images, .device = device_});
    require_equal(found, output);
    return words(found);
  }

  std::string prove_rounded(ConvertedModel model, const std::string& output,
                            const std::vector<Image>& images) override {
    const ScoreMatch found =
        compare_models(std::move(model), *model_, {.images = images, .device = device_});
    require_alike(found, output);
    return words(found);
  }

 private:
  static std::string words(const ScoreMatch& found) {
    return cat("proof: ", counted(found.image_count, "image"), ", the same best class on ",
               found.same_best_count, "; largest difference: probability ",
               found.largest_probability, ", logit ", found.largest_logit, " of the largest\n");
  }

  c10::Device device_;
  std::unique_ptr<Classifier> model_;
};

}  // namespace

std::unique_ptr<Conversion> make_classifier_conversion(const ConversionInputs& inputs) {
  return std::make_unique<ClassifierConversion>(inputs);
}

}  // namespace retina
