#include "convert/convert.h"

#include <torch/csrc/jit/serialization/export.h>

#include <filesystem>
#include <utility>

#include "convert/proof/proof.h"
#include "convert/proof/proof_images.h"
#include "convert/repository.h"
#include "convert/script/inference_module.h"
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

namespace retina {
namespace {

// True when the model file `path`, which `option` named, already exists and was made from the same
// inputs; throws when it was made from others.
bool already_done(const ConvertOptions& options, const std::string& path, const char* option,
                  std::uint64_t checkpoint_hash) {
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
  const auto settings = [](std::uint64_t checkpoint, const auto& detections) {
    return SettingValues{{"checkpoint", hex64(checkpoint)},
                         {"score-threshold", shortest(detections.score_threshold)},
                         {"nms-threshold", shortest(detections.nms_threshold)},
                         {"max-detections", cat(detections.max_detections)}};
  };
  const std::string changed = differences(settings(header.checkpoint_hash, header),
                                          settings(checkpoint_hash, options.postprocess));
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
  const ModelRepository repository(options.repository, options.service_name);
  const InferenceHeader header = read_inference_header(options.output);
  repository.prepare(header, options.overwrite);
  if (!repository.write(options.output, header)) {
    return cat(options.output, " and ", repository.model_folder(), ": already exist", same);
  }
  return cat(options.output, ": already exists", same, repository.model_folder(), ": written\n");
}

std::string proof_text(const ConvertOptions& options, const ProofInputs& inputs,
                       const MatchResult& proof) {
  std::string text =
      cat(options.output, ": ", human_bytes(static_cast<double>(file_size_bytes(options.output))),
          "\nproof: ", inputs.images.size(), " images, ", proof.paired_count,
          " detections equal; largest difference: box ", proof.largest_box_px, " px, score ",
          proof.largest_score, "\n");
  if (proof.borderline_count > 0) {
    text += cat("proof: ", proof.borderline_count, " more lie on a threshold\n");
  }
  return text;
}

}  // namespace

std::string convert(const ConvertOptions& asked) {
  ConvertOptions options = asked;
  options.checkpoint = resolve_checkpoint(asked.checkpoint);
  const std::uint64_t checkpoint_hash = check_seal(options.checkpoint, "checkpoint");
  const c10::Device device = choose_device(options.device, {});
  set_tf32(false);  // what the proof compares is nearer than TF32's rounding
  // What may be there already: the model, and its copy in the repository.
  const bool is_converted = already_done(options, options.output, "--output", checkpoint_hash);
  const ModelRepository repository(options.repository, options.service_name);
  const bool has_repository = !options.repository.empty();
  if (has_repository) {
    already_done(options, repository.model_path(), "--repository", checkpoint_hash);
  }
  if (is_converted) return finish_repository(options);
  // Inputs: the network, the images of the proof, what is stored beside the module.
  const FileLock lock(options.output);
  const Checkpoint checkpoint = load_checkpoint(options.checkpoint);
  RetinaNet model = trained_network(checkpoint, options.checkpoint);
  const ProofInputs inputs{
      .images = options.proof_data.empty()
                    ? generated_images(options.proof_image_count)
                    : shard_images(options.proof_data, options.proof_image_count),
      .postprocess = options.postprocess,
      .device = device};
  const InferenceHeader header{.config_json = checkpoint.config_json,
                               .categories = checkpoint.categories,
                               .checkpoint_hash = checkpoint_hash,
                               .score_threshold = options.postprocess.score_threshold,
                               .nms_threshold = options.postprocess.nms_threshold,
                               .max_detections = options.postprocess.max_detections};
  if (has_repository) repository.prepare(header, options.overwrite);
  const torch::jit::Module module =
      make_inference_module(model, {.config_json = checkpoint.config_json,
                                    .categories = checkpoint.categories,
                                    .postprocess = options.postprocess});
  // Publishes the module only after the proof on the written file.
  log_info("proving the model on ", inputs.images.size(), " images");
  MatchResult proof;
  midway([&] {
    write_sealed(
        options.output,
        [&](const ByteSink& sink) {
          torch::jit::ExportModule(module, sink, {{kInferenceHeaderFile, header.to_json()}});
        },
        [&](const std::string& temporary) {
          proof = compare_models(temporary, model, inputs);
          require_equal(proof, options.output);
        });
  });
  std::string text = proof_text(options, inputs, proof);
  if (has_repository && repository.write(options.output, header)) {
    text += cat(repository.model_folder(), ": written\n");
  }
  return text;
}

}  // namespace retina
