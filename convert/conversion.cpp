#include "convert/conversion.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "convert/onnx_weights.h"
#include "convert/verification/verification.h"
#include "convert/verification/verification_images.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/host.h"
#include "shared/base/log.h"
#include "shared/evaluation/predict/trained_network.h"
#include "shared/onnx/onnx_file.h"
#include "shared/onnx/onnx_session.h"
#include "shared/shard/shard_set.h"

namespace retina {
namespace {

// Largest loss of the metric through rounding to 8 bits that gives no warning: one point.
constexpr double kMostLost = 0.01;

std::variant<RetinaNet, std::unique_ptr<Classifier>> network_of(const Checkpoint& checkpoint,
                                                                const std::string& path) {
  if (model_config_of(checkpoint.config_json, path).task == Task::kDetection) {
    return trained_network(checkpoint, path);
  }
  return trained_classifier(checkpoint, path);
}

// Writes `model` to `output` and returns the text of `verify`, which gets the file before it is
// published.
std::string publish_model(const std::string& model, const std::string& output,
                          const std::function<std::string(ConvertedModel)>& verify) {
  std::string words;
  as_io_error([&] {
    write_onnx_file(output, model, [&](const std::string& temporary) {
      words = verify(ConvertedModel(temporary));
    });
  });
  return words;
}

// Runs the f32 `model` on every image and returns the range of each of its rounded_values: the mean
// over the images of their least and largest numbers, which ignores an image's rare extremes.
// `subject` begins the messages. Throws as OnnxSession.
ValueRanges ranges_on(const OnnxModel& model, const std::vector<Image>& images,
                      const std::string& subject) {
  const std::unique_ptr<OnnxSession> session =
      open_onnx_session(model.bytes, subject, usable_cores(), model.rounded_values);
  const auto share = 1 / static_cast<float>(images.size());
  ValueRanges ranges;
  for (const Image& image : images) {
    const at::Tensor planes = planes_of(image);
    const std::vector<OnnxOutput> outputs =
        session->run({.pixels = planes.const_data_ptr<std::uint8_t>(),
                      .count = 1,
                      .height = image.height,
                      .width = image.width});
    // The model's own outputs come first.
    RETINA_CHECK(outputs.size() > model.rounded_values.size());
    const std::size_t first = outputs.size() - model.rounded_values.size();
    for (std::size_t place = 0; place < model.rounded_values.size(); ++place) {
      const OnnxOutput& output = outputs[first + place];
      std::int64_t count = 1;
      for (const std::int64_t side : output.shape) count *= side;
      const auto* const numbers = static_cast<const float*>(output.data);
      const auto [least, largest] = std::minmax_element(numbers, numbers + count);
      ValueRange& range = ranges[model.rounded_values[place]];
      range.least += *least * share;
      range.largest += *largest * share;
    }
  }
  return ranges;
}

}  // namespace

Conversion::Conversion(const ConvertOptions& options, const Checkpoint& checkpoint,
                       c10::Device device)
    : options_(options), device_(device), model_(network_of(checkpoint, options.checkpoint)) {}

OnnxModel Conversion::onnx(const InferenceHeader& header, const ValueRanges& ranges) const {
  const auto* const detector = std::get_if<RetinaNet>(&model_);
  const Network* network = detector;
  if (detector == nullptr) network = std::get<std::unique_ptr<Classifier>>(model_).get();
  return write_onnx_model(header, OnnxWeights(state_of(*network), network->config().norm_eps),
                          ranges);
}

std::string Conversion::verify(ConvertedModel model, const std::vector<Image>& images) {
  const VerificationInputs inputs{
      .images = images, .postprocess = options_.postprocess(), .device = device_};
  const std::string& output = options_.output;
  const OnnxForm form = model.header().form;
  const bool is_rounded = form.weights != WeightType::kF32;
  // A classifier is compared by its scores.
  if (auto* const classifier = std::get_if<std::unique_ptr<Classifier>>(&model_)) {
    const ScoreMatch found = compare_models(std::move(model), **classifier, inputs);
    is_rounded ? require_alike(found, output) : require_equal(found, output);
    return cat("verification: ", counted(found.image_count, "image"), ", the same best class on ",
               found.same_best_count, "; largest difference: probability ",
               found.largest_probability, ", logit ", found.largest_logit, " of the largest\n");
  }
  // A detector is compared by its detections or, without postprocessing, by all anchors.
  auto& detector = std::get<RetinaNet>(model_);
  const MatchResult found = form.postprocess ? compare_models(std::move(model), detector, inputs)
                                             : compare_anchors(std::move(model), detector, inputs);
  if (!is_rounded) {
    require_equal(found, output);
    std::string text =
        cat("verification: ", counted(images.size(), "image"), ", ",
            form.postprocess ? counted(found.paired_count, "detection")
                             : cat(found.paired_count, " anchors"),
            " equal", options_.onnx_weights == WeightType::kF32 ? "" : " before rounding",
            "; largest difference: box ", found.largest_box_px, " px, score ", found.largest_score,
            "\n");
    if (found.borderline_count > 0) {
      text += cat("verification: ", found.borderline_count, " more differ only at a threshold\n");
    }
    return text;
  }
  if (!form.postprocess) {
    require_alike_anchors(found, output);
    return cat("verification: rounding the weights moves boxes by up to ", found.largest_box_px,
               " px and scores by up to ", found.largest_score, "\n");
  }
  require_alike(found, output);
  return cat("verification: with rounded weights ", found.paired_count, " detections match within ",
             kPairedBoxPx, " px and ", kPairedScore, " in score; ",
             found.borderline_count + found.unexplained_count, " appear in only one model\n");
}

OnnxModel Conversion::with_int8(const InferenceHeader& header, const OnnxModel& exact) const {
  const std::vector<Image> images =
      fitted(shard_images(options_.verification_data, options_.calibration_image_count),
             header.form.image);
  log_info("calibrating int8 ranges on ", counted(images.size(), "image"), " of ",
           options_.verification_data);
  return onnx(header, ranges_on(exact, images, options_.output));
}

std::string Conversion::cost_of_int8(ConvertedModel exact, ConvertedModel rounded) const {
  const std::string& data = options_.verification_data;
  const ShardSet shards(data);
  const int image_count = options_.calibration_image_count;
  const Accuracy before = accuracy_on(std::move(exact), shards, image_count);
  const Accuracy after = accuracy_on(std::move(rounded), shards, image_count);
  if (before.metric < 0) {  // pycocotools' AP without ground truth
    return cat("verification: ", before.name, " with int8 not compared: the ",
               counted(before.image_count, "image"), " of ", data, " contain no objects\n");
  }
  if (after.metric < before.metric - kMostLost) {
    log_warning(options_.output, ": int8 lowers ", before.name, " by ",
                before.metric - after.metric,
                "; more --calibration-images may help, or --weights f16");
  }
  return cat("verification: ", before.name, " on ", counted(before.image_count, "image"), " of ",
             data, ": ", before.metric, " with f32, ", after.metric, " with int8\n");
}

std::string Conversion::publish(const InferenceHeader& header, const std::vector<Image>& images) {
  const WeightType weights = header.form.weights;
  InferenceHeader exact_header = header;
  exact_header.form.weights = WeightType::kF32;
  const OnnxModel exact = onnx(exact_header, {});
  if (!has_onnx_runtime() && weights != WeightType::kInt8) {
    write_onnx_file(options_.output, onnx(header, {}).bytes);
    return "verification: ONNX's own checker only: this build has no runtime for ONNX models\n";
  }
  const auto publish_verified = [&](const std::string& model) {
    return publish_model(model, options_.output, [&](ConvertedModel written) {
      return verify(std::move(written), images);
    });
  };
  if (weights == WeightType::kF32) return publish_verified(exact.bytes);
  // The f32 graph is verified first, then the file that is written.
  const auto open_exact = [&] {
    return ConvertedModel(exact.bytes, exact_header, options_.output);
  };
  const std::string words = verify(open_exact(), images);
  if (weights == WeightType::kF16) return words + publish_verified(onnx(header, {}).bytes);
  return words + publish_model(with_int8(header, exact).bytes, options_.output,
                               [&](ConvertedModel written) {
                                 if (!can_be_scored(header)) return std::string();
                                 return cost_of_int8(open_exact(), std::move(written));
                               });
}

}  // namespace retina
