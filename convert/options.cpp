#include "convert/options.h"

#include "convert/import/import.h"
#include "convert/repository.h"
#include "shared/base/cli.h"
#include "shared/base/error.h"

namespace retina {

void ConvertOptions::validate() const {
  const auto refuse = [](const std::string& problem) {
    throw Error(ErrorKind::kUsage, problem, "retina-convert --help");
  };
  if (checkpoint.empty() == weights.empty()) {
    refuse(weights.empty() ? "--checkpoint: is required (or --import)"
                           : "--checkpoint and --import are both given");
  }
  if (output.empty()) refuse("--output: is required");
  if (weights.empty() && !categories.empty()) refuse("--categories: is for --import only");
  if (weights.empty() && norm_eps) refuse("--norm-eps: is for --import only");
  if (weights.empty() && !(import_config == ModelConfig{})) {
    refuse("--anchor-sizes, --min-side and --max-side: are for --import only");
  }
  if (checkpoint.empty() && !repository.empty()) refuse("--repository: is for --checkpoint only");
  if (repository.empty() && service_name != kDefaultServiceName) {
    refuse("--service-name: needs --repository");
  }
  if (!is_service_name(service_name)) {
    refuse(cat("--service-name: not a name (got \"", service_name,
               "\", want letters, digits, _ . -, at most 128)"));
  }
  if (norm_eps && !(*norm_eps >= 0 && *norm_eps < 1)) {
    refuse(cat("--norm-eps: out of range (got ", *norm_eps, ", want 0 to 1)"));
  }
  ModelConfig import_model = import_config;
  import_model.class_count = 1;  // known when the file is read
  import_model.validate();
  postprocess.validate();
  if (proof_image_count < 1 || proof_image_count > 10000) {
    throw Error(ErrorKind::kUsage,
                cat("--proof-images: out of range (got ", proof_image_count, ", want 1 to 10000)"));
  }
}

ImportOptions ConvertOptions::import_options() const {
  return {.weights = weights,
          .output = output,
          .categories = categories,
          .norm_eps = norm_eps,
          .config = import_config,
          .overwrite = overwrite};
}

void declare_options(Cli& cli, ConvertOptions& options) {
  cli.group("Files");
  cli.option(
      "checkpoint", options.checkpoint, "RUN|C.pt",
      "folder of retina-train (its best checkpoint, without validation its last), or a checkpoint");
  cli.option("output", options.output, "MODEL.pt",
             "inference model (TorchScript) to write; with --import a checkpoint");
  cli.flag("overwrite", options.overwrite,
           "replace an output that was made with other inputs or options");
  cli.group("Serving");
  cli.option("repository", options.repository, "DIR",
             "also write DIR/NAME/ as NVIDIA Triton and MLServer load it");
  cli.option("service-name", options.service_name, "NAME", "of the model there");
  cli.group("Weights of torchvision");
  cli.option("import", options.weights, "WEIGHTS.pth",
             "RetinaNet (v1 or v2) or ImageNet ResNet, as torch.save writes them");
  cli.option("categories", options.categories, "annotations.json|coco",
             "names of its classes [coco for 91 classes]");
  cli.option("norm-eps", options.norm_eps, "EPS",
             "added to the variance in batch norm [0 for 91 classes of v1, else 1e-05]");
  cli.option("anchor-sizes", options.import_config.anchor_sizes, "PX,PX,PX,PX,PX",
             "base anchor of P3..P7 that it was trained with");
  cli.option("min-side", options.import_config.min_side_px, "PX",
             "its images are resized so that the shorter side is this");
  cli.option("max-side", options.import_config.max_side_px, "PX",
             "but never the longer side past this");
  cli.group("Detections of the model");
  cli.option("score-threshold", options.postprocess.score_threshold, "P",
             "detections score above this");
  cli.option("nms-threshold", options.postprocess.nms_threshold, "IOU",
             "of two boxes of a class that overlap more than this, the better stays");
  cli.option("max-detections", options.postprocess.max_detections, "D",
             "best detections kept per image");
  cli.group("Proof that the model equals the checkpoint");
  cli.option("proof-images", options.proof_image_count, "COUNT", "images to compare on");
  cli.option("data", options.proof_data, "SHARDS", "take them from here (default: generated)");
  cli.choice("device", options.device, kDeviceChoices, "where the proof runs");
  cli.validate([&options] { options.validate(); });
}

}  // namespace retina
