#include "convert/convert.h"

#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "convert/conversion.h"
#include "convert/import/foreign_network.h"
#include "convert/repository.h"
#include "convert/verification/verification_images.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/base/output.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/checkpoint/pretrained.h"
#include "shared/checkpoint/run_folder.h"
#include "shared/checkpoint/sealed_file.h"
#include "shared/comm/communicator.h"
#include "shared/evaluation/predict/trained_network.h"
#include "shared/model/device.h"
#include "shared/onnx/onnx_check.h"
#include "shared/onnx/onnx_file.h"
#include "shared/ops/own_kernels.h"

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
  CheckedModel there;
  try {
    there = read_onnx_model(path);
  } catch (const Error& error) {
    throw not_ours_to_replace(path, error.what(), option);
  }
  if (there.is_broken) throw not_ours_to_replace(path, cat(path, ": ", there.problem), option);
  const std::string changed = differences(settings_of(there.header), settings_of(wanted));
  // A model of another version is written anew.
  if (changed.empty()) return there.problem.empty();
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
