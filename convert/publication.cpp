#include "convert/publication.h"

#include <functional>
#include <utility>

#include "convert/calibration.h"
#include "convert/proof/accuracy.h"
#include "convert/proof/proof_images.h"
#include "shared/base/counted.h"
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
  std::vector<Image> pictures = shard_images(options.proof_data, options.calibration_image_count);
  log_info("reading the ranges of values on ", counted(pictures.size(), "image"), " of ",
           options.proof_data);
  if (header.form.picture) {
    for (Image& picture : pictures) picture = fitted(picture, *header.form.picture);
  }
  return conversion.onnx(header, ranges_on(exact, pictures, options.output));
}

std::string cost_of_int8(const ConvertOptions& options, ConvertedModel exact,
                         ConvertedModel rounded) {
  const ShardSet shards(options.proof_data);
  const Accuracy before = accuracy_on(std::move(exact), shards, options.calibration_image_count);
  const Accuracy after = accuracy_on(std::move(rounded), shards, options.calibration_image_count);
  if (before.figure < 0) {  // pycocotools' AP without ground truth
    return cat("proof: ", before.name, " with int8 not compared: the ",
               counted(before.image_count, "image"), " of ", options.proof_data,
               " hold no object\n");
  }
  if (after.figure < before.figure - kMostLost) {
    log_warning(options.output, ": 8 bits cost ", before.figure - after.figure, " of ", before.name,
                "; more --calibration-images may help, or --weights f16");
  }
  return cat("proof: ", before.name, " on ", counted(before.image_count, "image"), " of ",
             options.proof_data, ": ", before.figure, " with f32, ", after.figure, " with int8\n");
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
  const std::string proof = conversion.prove(open_exact(), options.output, images);
  if (weights == WeightType::kF16) {
    return proof +
           publish(conversion.onnx(header, {}).bytes, options.output, [&](ConvertedModel written) {
             return conversion.prove_rounded(std::move(written), options.output, images);
           });
  }
  return proof + publish(with_int8(conversion, options, header, exact).bytes, options.output,
                         [&](ConvertedModel written) {
                           if (!can_be_scored(header)) return std::string();
                           return cost_of_int8(options, open_exact(), std::move(written));
                         });
}

}  // namespace retina
