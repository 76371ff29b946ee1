#include "convert/conversion.h"
#include "convert/onnx_weights.h"
#include "convert/verification/anchor_verification.h"
#include "convert/verification/detector_verification.h"
#include "shared/base/cat.h"
#include "shared/evaluation/predict/trained_network.h"

namespace retina {
namespace {

class DetectorConversion : public Conversion {
 public:
  explicit DetectorConversion(const ConversionInputs& inputs)
      : postprocess_(inputs.options.postprocess()),
        device_(inputs.device),
        model_(trained_network(inputs.checkpoint, inputs.options.checkpoint)) {}

  OnnxModel onnx(const InferenceHeader& header, const ValueRanges& ranges) const override {
    return write_onnx_model(header, OnnxWeights(state_of(model_), model_.config().norm_eps),
                            ranges);
  }

  std::string prove(ConvertedModel model, const std::string& output,
                    const std::vector<Image>& images) override {
    if (gives_anchors(model)) {
      const AnchorMatch found = compare_anchors(std::move(model), model_, inputs(images));
      require_equal(found, output);
      return cat("proof: ", counted(images.size(), "image"), ", ", found.anchor_count,
                 " anchors equal; largest difference: box ", found.largest_box_px, " px, score ",
                 found.largest_score, "\n");
    }
    const MatchResult found = compare_models(std::move(model), model_, inputs(images));
    require_equal(found, output);
    std::string text =
        cat("proof: ", counted(images.size(), "image"), ", ",
            counted(found.paired_count, "detection"), " equal; largest difference: box ",
            found.largest_box_px, " px, score ", found.largest_score, "\n");
    if (found.borderline_count > 0) {
      text += cat("proof: ", found.borderline_count, " more lie on a threshold\n");
    }
    return text;
  }

  std::string prove_rounded(ConvertedModel model, const std::string& output,
                            const std::vector<Image>& images) override {
    if (gives_anchors(model)) {
      const AnchorMatch found = compare_anchors(std::move(model), model_, inputs(images));
      require_alike(found, output);
      return cat("proof: rounding the weights moves boxes by up to ", found.largest_box_px,
                 " px and scores by up to ", found.largest_score, "\n");
    }
    const MatchResult found = compare_models(std::move(model), model_, inputs(images));
    require_alike(found, output);
    return cat("proof: with rounded weights ", found.paired_count, " detections stay within ",
               kPairedBoxPx, " px and ", kPairedScore, " of score, ",
               found.borderline_count + found.unexplained_count, " of either come or go\n");
  }

 private:
  static bool gives_anchors(const ConvertedModel& model) {
    return !model.header().form.postprocess;
  }
  VerificationInputs inputs(const std::vector<Image>& images) const {
    return {.images = images, .postprocess = postprocess_, .device = device_};
  }

  PostprocessOptions postprocess_;
  c10::Device device_;
  RetinaNet model_;
};

}  // namespace

std::unique_ptr<Conversion> make_detector_conversion(const ConversionInputs& inputs) {
  return std::make_unique<DetectorConversion>(inputs);
}

}  // namespace retina
