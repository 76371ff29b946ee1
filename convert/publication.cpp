#include "convert/publication.h"

#include <functional>
#include <utility>

#include "convert/calibration.h"
#include "convert/verification/accuracy.h"
#include "convert/verification/verification_images.h"
#include "shared/base/file.h"
#include "shared/base/log.h"
#include "shared/onnx/onnx_file.h"
#include "shared/onnx/onnx_session.h"
#include "shared/shard/shard_set.h"

namespace retina {
namespace {

// A point: what rounding to 8 bits may cost without a warning.
constexpr double kMostLost = 0.01;

// `prove` returns its words.
std::string publish(const std::string& model, const std::string& output,
                    const std::function<std::string(ConvertedModel)>& prove) {
  std::string words;
  as_io_error([&] {
    write_onnx_file(output, model, [&](const std::string& temporary) {
      words = prove(ConvertedModel(temporary));
    });
  });
  return words;
}

OnnxModel with_int8(const Conversion& conversion, const ConvertOptions& options,
                    const InferenceHeader& header, const OnnxModel& exact) {
  std::vector<Image> images =
      shard_images(options.verification_data, options.calibration_image_count);
  log_info("reading the ranges of values on ", counted(images.size(), "image"), " of ",
           options.verification_data);
  if (header.form.image) {
    for (Image& image : images) image = fitted(image, *header.form.image);
  }
  return conversion.onnx(header, ranges_on(exact, images, options.output));
}

std::string cost_of_int8(const ConvertOptions& options, ConvertedModel exact,
                         ConvertedModel rounded) {
  const ShardSet shards(options.verification_data);
  const Accuracy before = accuracy_on(std::move(exact), shards, options.calibration_image_count);
  const Accuracy after = accuracy_on(std::move(rounded), shards, options.calibration_image_count);
  if (before.metric < 0) {  // pycocotools' AP without ground truth
    return cat("proof: ", before.name, " with int8 not compared: the ",
               counted(before.image_count, "image"), " of ", options.verification_data,
               " hold no object\n");
  }
  if (after.metric < before.metric - kMostLost) {
    log_warning(options.output, ": 8 bits cost ", before.metric - after.metric, " of ", before.name,
                "; more --calibration-images may help, or --weights f16");
  }
  return cat("proof: ", before.name, " on ", counted(before.image_count, "image"), " of ",
             options.verification_data, ": ", before.metric, " with f32, ", after.metric,
             " with int8\n");
}

}  // namespace

std::string publish_model(Conversion& conversion, const ConvertOptions& options,
                          const InferenceHeader& header, const std::vector<Image>& images) {
  const WeightType weights = header.form.weights;
  InferenceHeader exact_header = header;
  exact_header.form.weights = WeightType::kF32;
  const OnnxModel exact = conversion.onnx(exact_header, {});
  if (!has_onnx_runtime() && weights != WeightType::kInt8) {
    write_onnx_file(options.output, conversion.onnx(header, {}).bytes);
    return "proof: ONNX's own checker only: this build has no runtime for ONNX models\n";
  }
  if (weights == WeightType::kF32) {
    return publish(exact.bytes, options.output, [&](ConvertedModel written) {
      return conversion.prove(std::move(written), options.output, images);
    });
  }
  const auto open_exact = [&] { return ConvertedModel(exact.bytes, exact_header, options.output); };
  const std::string verification = conversion.prove(open_exact(), options.output, images);
  if (weights == WeightType::kF16) {
    return verification +
           publish(conversion.onnx(header, {}).bytes, options.output, [&](ConvertedModel written) {
             return conversion.prove_rounded(std::move(written), options.output, images);
           });
  }
  return verification + publish(with_int8(conversion, options, header, exact).bytes, options.output,
                                [&](ConvertedModel written) {
                                  if (!can_be_scored(header)) return std::string();
                                  return cost_of_int8(options, open_exact(), std::move(written));
                                });
}

}  // namespace retina
