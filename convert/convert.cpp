#include "convert/convert.h"

#include <torch/csrc/jit/serialization/export.h>

#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "convert/calibration.h"
#include "convert/conversion.h"
#include "convert/proof/accuracy.h"
#include "convert/proof/proof_images.h"
#include "convert/repository.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/base/settings.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/checkpoint/inference_file.h"
#include "shared/checkpoint/run_folder.h"
#include "shared/checkpoint/sealed_file.h"
#include "shared/evaluation/trained_network.h"
#include "shared/model/device.h"
#include "shared/onnx/onnx_session.h"
#include "shared/shard/shard_set.h"

namespace retina {
namespace {

// A point: what rounding to 8 bits may cost without a warning.
constexpr double kMostLost = 0.01;

// What decides a model, as --overwrite and the message without it see it.
SettingValues settings_of(const InferenceHeader& header) {
  SettingValues settings{
      {"checkpoint", hex64(header.checkpoint_hash)},
      {"format",
       word_of(kModelFormats, header.onnx ? ModelFormat::kOnnx : ModelFormat::kTorchScript)}};
  if (header.onnx) {
    const OnnxForm& form = *header.onnx;
    settings.insert({{"weights", word_of(kWeightTypes, form.weights)},
                     {"onnx-static",
                      form.picture ? cat(form.picture->height, "x", form.picture->width) : "any"},
                     {"no-postprocess", form.postprocess ? "off" : "on"}});
  }
  if (header.task == Task::kDetection) {
    settings.insert({{"score-threshold", shortest(header.score_threshold)},
                     {"nms-threshold", shortest(header.nms_threshold)},
                     {"max-detections", cat(header.max_detections)}});
  }
  return settings;
}

// True when the model file `path`, which `option` named, already exists and was made from the same
// inputs; throws when it was made from others.
bool already_done(const ConvertOptions& options, const std::string& path, const char* option,
                  const InferenceHeader& wanted) {
  if (!path_exists(path)) return false;
  const std::string choose = cat("choose another ", option);
  std::error_code ignored;
  if (std::filesystem::equivalent(path, options.checkpoint, ignored)) {
    throw Error(ErrorKind::kConfig, cat(path, ": is the checkpoint itself"), choose);
  }
  if (is_folder(path)) {
    throw Error(ErrorKind::kCannotCreate, cat(path, ": is a folder (want a file)"), choose);
  }
  InferenceHeader header;
  try {
    header = read_inference_header(path);
  } catch (const Error& error) {
    if (options.overwrite) return false;
    throw Error(ErrorKind::kConfig,
                cat(path, ": exists and is not ours to replace: ", error.what()), choose);
  }
  const std::string changed = differences(settings_of(header), settings_of(wanted));
  if (changed.empty()) return true;
  if (options.overwrite) return false;
  throw Error(ErrorKind::kConfig, cat(path, ": was made with other inputs: ", changed),
              cat(choose, ", or give --overwrite"));
}

// What to print when the output exists and was made from the same inputs; its repository may not
// exist.
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

// What the model will say of itself. Throws as ConvertOptions::check_task.
InferenceHeader header_of(const CheckpointHeader& checkpoint, std::uint64_t checkpoint_hash,
                          const ConvertOptions& options) {
  const Task task = model_config_of(checkpoint.config_json, options.checkpoint).task;
  options.check_task(task);
  const PostprocessOptions postprocess = options.postprocess();
  return {.task = task,
          .config_json = checkpoint.config_json,
          .categories = checkpoint.categories,
          .checkpoint_hash = checkpoint_hash,
          .onnx = options.onnx_form(),
          .score_threshold = postprocess.score_threshold,
          .nms_threshold = postprocess.nms_threshold,
          .max_detections = postprocess.max_detections};
}

// Both publish the model only after the proof on the written file, whose words they return.
std::string write_script(Conversion& conversion, const ConvertOptions& options,
                         const InferenceHeader& header, c10::Device device,
                         const std::vector<Image>& images) {
  const torch::jit::Module module = conversion.module();
  std::string proof;
  midway([&] {
    write_sealed(
        options.output,
        [&](const ByteSink& sink) {
          torch::jit::ExportModule(module, sink, {{kInferenceHeaderFile, header.to_json()}});
        },
        [&](const std::string& temporary) {
          proof = conversion.prove({temporary, device_text(device)}, options.output, images);
        });
  });
  return proof;
}

std::string write_onnx(Conversion& conversion, const ConvertOptions& options,
                       const InferenceHeader& header, const std::vector<Image>& images) {
  InferenceHeader exact_header = header;
  exact_header.onnx->weights = WeightType::kF32;
  const OnnxModel exact = conversion.onnx(exact_header, {});
  if (!has_onnx_runtime() && header.onnx->weights != WeightType::kInt8) {
    write_sealed_onnx(options.output, conversion.onnx(header, {}).bytes);
    return "proof: ONNX's own checker only: this build has no runtime for ONNX models\n";
  }
  const auto opened = [&] { return ConvertedModel(exact.bytes, exact_header, options.output); };
  const auto publish = [&](const std::string& model, const auto& prove) {
    std::string words;
    midway([&] {
      write_sealed_onnx(options.output, model, [&](const std::string& temporary) {
        words = prove(ConvertedModel(temporary, "cpu"));
      });
    });
    return words;
  };
  if (header.onnx->weights == WeightType::kF32) {
    return publish(exact.bytes, [&](ConvertedModel written) {
      return conversion.prove(std::move(written), options.output, images);
    });
  }
  // First the graph, then what rounding does to it.
  std::string proof = conversion.prove(opened(), options.output, images);
  if (header.onnx->weights == WeightType::kF16) {
    return proof + publish(conversion.onnx(header, {}).bytes, [&](ConvertedModel written) {
             return conversion.prove_rounded(std::move(written), options.output, images);
           });
  }
  const ShardSet shards(options.proof_data);
  log_info("reading the ranges of values on ", options.calibration_image_count, " images of ",
           options.proof_data);
  std::vector<Image> pictures = shard_images(options.proof_data, options.calibration_image_count);
  if (header.onnx->picture) {
    for (Image& picture : pictures) picture = fitted(picture, *header.onnx->picture);
  }
  const ValueRanges ranges = ranges_on(exact, pictures, options.output);
  return proof + publish(conversion.onnx(header, ranges).bytes, [&](ConvertedModel written) {
           if (!can_be_scored(header)) return std::string();
           const auto figure = [&](ConvertedModel model) {
             return accuracy_on(std::move(model), shards, options.calibration_image_count);
           };
           const Accuracy before = figure(opened()), after = figure(std::move(written));
           if (after.figure < before.figure - kMostLost) {
             log_warning(options.output, ": 8 bits cost ", before.figure - after.figure, " of ",
                         before.name, "; more --calibration-images may help, or --weights f16");
           }
           return cat("proof: ", before.name, " on ", before.image_count, " images of ",
                      options.proof_data, ": ", before.figure, " with f32, ", after.figure,
                      " with int8\n");
         });
}

}  // namespace

std::string convert(const ConvertOptions& asked) {
  ConvertOptions options = asked;
  options.checkpoint = resolve_checkpoint(asked.checkpoint);
  const std::uint64_t checkpoint_hash = check_seal(options.checkpoint, "checkpoint");
  const c10::Device device = choose_device(options.device, {});
  set_tf32(false);  // what the proof compares is nearer than TF32's rounding
  const InferenceHeader header =
      header_of(read_checkpoint_header(options.checkpoint), checkpoint_hash, options);
  // What may be there already: the model, and its copy in the repository.
  const bool is_converted = already_done(options, options.output, "--output", header);
  const ModelRepository repository(options.repository, options.service_name_of(header.task));
  const bool has_repository = !options.repository.empty();
  if (has_repository) already_done(options, repository.model_path(), "--repository", header);
  if (is_converted) return finish_repository(options);
  // Inputs: the network, and the images of the proof.
  const FileLock lock(options.output);
  const Checkpoint checkpoint = load_checkpoint(options.checkpoint);
  const ConversionInputs inputs{.options = options, .checkpoint = checkpoint, .device = device};
  const std::unique_ptr<Conversion> conversion = header.task == Task::kDetection
                                                     ? make_detector_conversion(inputs)
                                                     : make_classifier_conversion(inputs);
  std::vector<Image> images = options.proof_data.empty()
                                  ? generated_images(options.proof_image_count)
                                  : shard_images(options.proof_data, options.proof_image_count);
  if (header.onnx && header.onnx->picture) {
    for (Image& image : images) image = fitted(image, *header.onnx->picture);
  }
  if (has_repository) repository.prepare(header, options.overwrite);
  log_info("proving the model on ", images.size(), " images");
  const std::string proof = header.onnx
                                ? write_onnx(*conversion, options, header, images)
                                : write_script(*conversion, options, header, device, images);
  std::string text =
      cat(options.output, ": ", human_bytes(static_cast<double>(file_size_bytes(options.output))),
          "\n", proof);
  if (has_repository && repository.write(options.output, header)) {
    text += cat(repository.model_folder(), ": written\n");
  }
  return text;
}

}  // namespace retina
