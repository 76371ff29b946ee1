#include "convert/options.h"

#include "shared/base/error.h"

namespace retina {

void ConvertOptions::validate() const {
  for (const auto& [name, value] : {std::pair{"--checkpoint", checkpoint}, {"--output", output}}) {
    if (value.empty()) {
      throw Error(ErrorKind::kUsage, cat(name, ": is required"), "retina-convert --help");
    }
  }
  postprocess.validate();
  if (proof_image_count < 1 || proof_image_count > 10000) {
    throw Error(ErrorKind::kUsage,
                cat("--proof-images: out of range (got ", proof_image_count, ", want 1 to 10000)"));
  }
}

void declare_options(Cli& cli, ConvertOptions& options) {
  cli.group("Files");
  cli.option("checkpoint", options.checkpoint, "C.pt", "checkpoint of retina-train");
  cli.option("output", options.output, "MODEL.pt", "inference model (TorchScript) to write");
  cli.flag("overwrite", options.overwrite, "replace an output that was made differently");
  cli.group("Detections of the model");
  cli.option("score-threshold", options.postprocess.score_threshold, "P",
             "detections score above this");
  cli.option("nms-threshold", options.postprocess.nms_threshold, "IOU",
             "of two boxes of a class that overlap more than this, the better stays");
  cli.option("max-detections", options.postprocess.max_detections, "D",
             "best detections kept of an image");
  cli.group("Proof that the model equals the checkpoint");
  cli.option("proof-images", options.proof_image_count, "COUNT", "images to compare on");
  cli.option("data", options.proof_data, "SHARDS", "take them from here (default: generated)");
  cli.choice("device", options.device, {"auto", "cpu", "cuda"}, "where the proof runs");
  cli.validate([&options] { options.validate(); });
}

}  // namespace retina
