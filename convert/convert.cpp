#include "convert/convert.h"

#include <torch/csrc/jit/serialization/export.h>

#include <filesystem>
#include <utility>

#include "convert/inference_module.h"
#include "convert/proof.h"
#include "convert/proof_images.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/checkpoint/inference_file.h"
#include "shared/checkpoint/sealed_file.h"
#include "shared/model/device.h"

namespace retina {
namespace {

// True when the output is there from the same inputs; throws when it is there from others.
bool already_done(const ConvertOptions& options, std::uint64_t checkpoint_hash) {
  if (!path_exists(options.output)) return false;
  std::error_code ignored;
  if (std::filesystem::equivalent(options.output, options.checkpoint, ignored)) {
    throw Error(ErrorKind::kConfig, cat(options.output, ": is the checkpoint itself"),
                "choose another --output");
  }
  if (is_folder(options.output)) {
    throw Error(ErrorKind::kCannotCreate, cat(options.output, ": is a folder (want a file)"),
                "choose another --output");
  }
  InferenceHeader header;
  try {
    header = read_inference_header(options.output);
  } catch (const Error& error) {
    if (options.overwrite) return false;
    throw Error(ErrorKind::kConfig,
                cat(options.output, ": exists and is not ours to replace: ", error.what()),
                "choose another --output, or give --overwrite");
  }
  std::string differing;
  const auto compare = [&](const char* key, const auto& got, const auto& want) {
    if (got != want) differing += cat(differing.empty() ? "" : ", ", key);
  };
  compare("checkpoint", header.checkpoint_hash, checkpoint_hash);
  compare("score-threshold", header.score_threshold, options.postprocess.score_threshold);
  compare("nms-threshold", header.nms_threshold, options.postprocess.nms_threshold);
  compare("max-detections", header.max_detections, options.postprocess.max_detections);
  if (differing.empty()) return true;
  if (options.overwrite) return false;
  throw Error(ErrorKind::kConfig,
              cat(options.output, ": was made with other inputs (", differing, ")"),
              "choose another --output, or give --overwrite");
}

RetinaNet build_model(const ConvertOptions& options, const Checkpoint& checkpoint) {
  const JsonFile config = JsonFile::parse(checkpoint.config_json, options.checkpoint + ": config");
  RetinaNet model(ModelConfig::from_json(config.root().at("model")));
  NamedState state;
  for (const auto& [name, tensor] : checkpoint.model) state.emplace_back(name, tensor);
  load_state(model, state, options.checkpoint);
  if (checkpoint.categories.size() != static_cast<std::size_t>(model->config().class_count)) {
    throw Error(ErrorKind::kData,
                cat(options.checkpoint, ": its categories do not fit its model (got ",
                    checkpoint.categories.size(), ", want ", model->config().class_count, ")"));
  }
  return model;
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

std::string convert(const ConvertOptions& options) {
  const std::uint64_t checkpoint_hash = check_seal(options.checkpoint, "checkpoint");
  const c10::Device device = choose_device(options.device, /*local_rank=*/0, /*local_size=*/1);
  if (already_done(options, checkpoint_hash)) {
    return cat(options.output, ": is there already, made from the same checkpoint and options\n");
  }
  const FileLock lock(options.output);
  const Checkpoint checkpoint = load_checkpoint(options.checkpoint);
  RetinaNet model = build_model(options, checkpoint);
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
  const torch::jit::Module module =
      make_inference_module(model, {.config_json = checkpoint.config_json,
                                    .categories = checkpoint.categories,
                                    .postprocess = options.postprocess});
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
  return proof_text(options, inputs, proof);
}

}  // namespace retina
