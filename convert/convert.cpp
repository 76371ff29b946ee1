#include "convert/convert.h"

#include <c10/core/Device.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "convert/import/foreign_network.h"
#include "convert/onnx_weights.h"
#include "convert/repository.h"
#include "convert/verification/verification.h"
#include "convert/verification/verification_images.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/host.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/base/output.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/checkpoint/pretrained.h"
#include "shared/checkpoint/run_folder.h"
#include "shared/checkpoint/sealed_file.h"
#include "shared/comm/communicator.h"
#include "shared/evaluation/predict/converted_model.h"
#include "shared/evaluation/predict/trained_network.h"
#include "shared/image/image.h"
#include "shared/model/classifier.h"
#include "shared/model/device.h"
#include "shared/model/retinanet.h"
#include "shared/onnx/onnx_check.h"
#include "shared/onnx/onnx_file.h"
#include "shared/onnx/onnx_model.h"
#include "shared/onnx/onnx_session.h"
#include "shared/ops/own_kernels.h"
#include "shared/shard/shard_set.h"

namespace retina {
namespace {

// Returns the settings that decide a model: those that --overwrite and the message without it
// compare.
SettingValues settings_of(const InferenceHeader& header) {
  const OnnxForm& form = header.form;
  SettingValues settings{
      {"checkpoint", hex64(header.checkpoint_hash)},
      {"weights", word_of(kWeightTypes, form.weights)},
      {"onnx-static", form.image ? cat(form.image->height, "x", form.image->width) : "any"},
      {"no-postprocess", form.postprocess ? "off" : "on"}};
  if (header.task == Task::kDetection) {
    settings.insert({{"score-threshold", shortest(header.score_threshold)},
                     {"nms-threshold", shortest(header.nms_threshold)},
                     {"max-detections", cat(header.max_detections)}});
  }
  return settings;
}

// Returns false for a model that another version wrote: it is written anew.
bool is_current(const std::string& path) {
  try {
    read_onnx_model(path);
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
    return false;
  }
}

// Returns true when the model file `path`, named by `option`, already exists and was made from the
// same inputs; throws when it was made from others.
bool already_done(const ConvertOptions& options, const std::string& path, const char* option,
                  const InferenceHeader& wanted) {
  if (!has_file(path, option)) return false;
  const std::string choose = cat("choose another ", option);
  std::error_code ignored;
  if (std::filesystem::equivalent(path, options.checkpoint, ignored)) {
    throw Error(ErrorKind::kConfig, cat(path, ": is the checkpoint itself"), choose);
  }
  InferenceHeader there;
  try {
    there = read_inference_header(path);
  } catch (const Error& error) {
    throw not_ours_to_replace(path, error.what(), option);
  }
  const std::string changed = differences(settings_of(there), settings_of(wanted));
  if (changed.empty()) return is_current(path);
  if (options.overwrite) return false;
  throw Error(ErrorKind::kConfig, cat(path, ": was made with other inputs: ", changed),
              cat(choose, ", or give --overwrite"));
}

// Writes the missing parts of the repository of an output that was made from the same inputs.
// Returns the text to print.
std::string finish_repository(const ConvertOptions& options) {
  const std::string same = ", made from the same checkpoint and options\n";
  if (options.repository.empty()) return cat(options.output, ": already exists", same);
  const InferenceHeader header = read_inference_header(options.output);
  const ModelRepository repository(options.repository, options.service_name_of(header.task));
  repository.prepare(header, options.overwrite);
  if (!repository.write(options.output, header)) {
    return cat(options.output, " and ", repository.model_folder(), ": already exist", same);
  }
  return cat(options.output, ": already exists", same, repository.model_folder(), ": written\n");
}

// Returns the header of the model. Throws as ConvertOptions::check_task.
InferenceHeader header_of(const CheckpointHeader& checkpoint, std::uint64_t checkpoint_hash,
                          const ConvertOptions& options) {
  const Task task = model_config_of(checkpoint.config_json, options.checkpoint).task;
  options.check_task(task);
  const PostprocessOptions postprocess = options.postprocess();
  return {.task = task,
          .config_json = checkpoint.config_json,
          .categories = checkpoint.categories,
          .checkpoint_hash = checkpoint_hash,
          .form = options.onnx_form(),
          .score_threshold = postprocess.score_threshold,
          .nms_threshold = postprocess.nms_threshold,
          .max_detections = postprocess.max_detections};
}

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

// Returns the text about the accuracy of both models on options.verification_data.
std::string cost_of_int8(ConvertedModel exact, ConvertedModel rounded,
                         const ConvertOptions& options) {
  constexpr double kMostLost = 0.01;  // of the metric, without a warning: one point
  const std::string& data = options.verification_data;
  const ShardSet shards(data);
  const int image_count = options.calibration_image_count;
  const Accuracy before = accuracy_on(std::move(exact), shards, image_count);
  const Accuracy after = accuracy_on(std::move(rounded), shards, image_count);
  if (before.metric < 0) {  // pycocotools' AP without ground truth
    return cat("verification: ", before.name, " with int8 not compared: the ",
               counted(before.image_count, "image"), " of ", data, " contain no objects\n");
  }
  if (after.metric < before.metric - kMostLost) {
    log_warning(options.output, ": int8 lowers ", before.name, " by ", before.metric - after.metric,
                "; --weights int8,calibration=COUNT with more images may help, or --weights f16");
  }
  return cat("verification: ", before.name, " on ", counted(before.image_count, "image"), " of ",
             data, ": ", before.metric, " with f32, ", after.metric, " with int8\n");
}

// Converts a checkpoint's network to an ONNX model, verifies it and writes it.
class Conversion {
 public:
  // `options` must outlive this. The checkpoint's network runs on `device` for the verification.
  // Throws as trained_network and trained_classifier do.
  Conversion(const ConvertOptions& options, const Checkpoint& checkpoint, c10::Device device);

  // Writes options.output and verifies it on `images`, by OpenVINO on the CPU. With rounded weights
  // the f32 graph is verified first, in memory, and then the effect of rounding: for f16 how much
  // the answers differ, for int8 the accuracy on options.verification_data before and after.
  // Returns the findings, lines that begin with "verification: ". Throws Error{kAnswerNo} about the
  // output when the model differs from the network or, with rounded weights, has little in common
  // with it; also throws as write_onnx_file and accuracy_on.
  std::string publish(const InferenceHeader& header, const std::vector<Image>& images);

 private:
  // Returns the inference model, in memory. `ranges` are used for int8.
  OnnxModel onnx(const InferenceHeader& header, const ValueRanges& ranges) const;
  // Compares the model with the network, less strictly where the model's weights are rounded.
  std::string verify(ConvertedModel model, const std::vector<Image>& images);

  const ConvertOptions& options_;
  c10::Device device_;
  std::variant<RetinaNet, std::unique_ptr<Classifier>> model_;
};

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
  const std::vector<Image> calibration =
      fitted(shard_images(options_.verification_data, options_.calibration_image_count),
             header.form.image);
  log_info("calibrating int8 ranges on ", counted(calibration.size(), "image"), " of ",
           options_.verification_data);
  const OnnxModel rounded = onnx(header, ranges_on(exact, calibration, options_.output));
  return words + publish_model(rounded.bytes, options_.output, [&](ConvertedModel written) {
           // Only these can be scored: any size in, detections or classes out.
           if (!header.form.postprocess || header.form.image) return std::string();
           return cost_of_int8(open_exact(), std::move(written), options_);
         });
}

}  // namespace

std::string convert(const ConvertOptions& asked) {
  ConvertOptions options = asked;
  options.checkpoint = resolve_checkpoint(
      resolve_name(asked.checkpoint, {.option = "--checkpoint", .near = asked.output}));
  const std::uint64_t checkpoint_hash = check_seal(options.checkpoint, "checkpoint");
  const c10::Device device = choose_device(options.device);
  set_tf32(false);  // the verification compares more closely than TF32 rounds
  const InferenceHeader header =
      header_of(read_checkpoint_header(options.checkpoint), checkpoint_hash, options);
  // The model and its copy in the repository may exist already.
  const bool is_converted = already_done(options, options.output, "--output", header);
  const ModelRepository repository(options.repository, options.service_name_of(header.task));
  const bool has_repository = !options.repository.empty();
  if (has_repository) already_done(options, repository.model_path(), "--repository", header);
  if (is_converted) return finish_repository(options);
  make_folder_of(options.output);
  replace_wrong_kernels(device, at::kFloat, *make_self_communicator());
  // Inputs: the network, and the images of the verification.
  const FileLock lock(options.output);
  const Checkpoint checkpoint = load_checkpoint(options.checkpoint, CheckpointPart::kModel);
  check_finite(checkpoint.model, options.checkpoint);
  Conversion conversion(options, checkpoint, device);
  const std::vector<Image> images =
      fitted(options.verification_data.empty()
                 ? generated_images(options.verification_image_count)
                 : shard_images(options.verification_data, options.verification_image_count),
             header.form.image);
  if (has_repository) repository.prepare(header, options.overwrite);
  log_info("verifying the model on ", counted(images.size(), "image"));
  const std::string verification = conversion.publish(header, images);
  std::string text =
      cat(options.output, ": ", human_bytes(static_cast<double>(file_size_bytes(options.output))),
          "\n", verification);
  if (has_repository && repository.write(options.output, header)) {
    text += cat(repository.model_folder(), ": written\n");
  }
  return text;
}

}  // namespace retina
