#include "convert/conversion.h"
#include "convert/proof/detector_proof.h"
#include "convert/script/inference_module.h"
#include "shared/base/cat.h"
#include "shared/evaluation/trained_network.h"

namespace retina {
namespace {

class DetectorConversion : public Conversion {
 public:
  explicit DetectorConversion(const ConversionInputs& inputs)
      : extras_{.config_json = inputs.checkpoint.config_json,
                .categories = inputs.checkpoint.categories,
                .postprocess = inputs.options.postprocess()},
        device_(inputs.device),
        model_(trained_network(inputs.checkpoint, inputs.options.checkpoint)) {}

  torch::jit::Module module() const override { return make_inference_module(model_, extras_); }

  std::string prove(const std::string& file, const std::string& output,
                    const std::vector<Image>& images) override {
    const MatchResult found = compare_models(
        file, model_, {.images = images, .postprocess = extras_.postprocess, .device = device_});
    require_equal(found, output);
    std::string text = cat("proof: ", images.size(), " images, ", found.paired_count,
                           " detections equal; largest difference: box ", found.largest_box_px,
                           " px, score ", found.largest_score, "\n");
    if (found.borderline_count > 0) {
      text += cat("proof: ", found.borderline_count, " more lie on a threshold\n");
    }
    return text;
  }

 private:
  InferenceExtras extras_;
  c10::Device device_;
  RetinaNet model_;
};

}  // namespace

std::unique_ptr<Conversion> make_detector_conversion(const ConversionInputs& inputs) {
  return std::make_unique<DetectorConversion>(inputs);
}

}  // namespace retina
