#include "convert/options.h"

#include <cstdio>
#include <filesystem>

#include "convert/import/import.h"
#include "convert/repository.h"
#include "shared/anchor/anchor_fit.h"
#include "shared/base/error.h"
#include "shared/cli/cli.h"
#include "shared/cli/foreign_names.h"

namespace retina {
namespace {

// What the program does, for the rules of its options.
constexpr unsigned kConvert = 1, kImport = 2;

// Names of models in a repository; jobs/ has the first, too.
constexpr const char* kDetectorName = "coco_retinanet";
constexpr const char* kClassifierName = "classifier";

// "HxW".
std::optional<PixelSize> size_of(const std::string& text) {
  constexpr int kMost = 16384;
  PixelSize size;
  char rest = 0;
  const bool read = std::sscanf(text.c_str(), "%5dx%5d%c", &size.height, &size.width, &rest) == 2;
  if (!read || size.height < 1 || size.height > kMost || size.width < 1 || size.width > kMost) {
    throw Error(ErrorKind::kUsage,
                cat("--onnx-static: got \"", text, "\", want HEIGHTxWIDTH, each 1..", kMost));
  }
  return size;
}

// What is written is what the output's name says; a name without an ending says nothing.
void check_output_name(const ConvertOptions& options) {
  const std::string ending = std::filesystem::path(options.output).extension().string();
  const auto refuse = [&](const std::string& problem, const std::string& hint) {
    throw Error(ErrorKind::kUsage, cat("--output ", options.output, ": ", problem), hint);
  };
  if (ending.empty()) return;
  if (!options.weights.empty()) {
    if (ending == ".pt" || ending == ".pth") return;
    refuse(cat("--import writes a checkpoint (got the ending ", ending, ", want .pt)"),
           "convert the checkpoint in a second step: --checkpoint C.pt --output MODEL.onnx");
  }
  if (ending == ".onnx") return;
  refuse(cat("an inference model is an ONNX file (got the ending ", ending, ", want .onnx)"),
         "other formats are made of an ONNX model by their own tools");
}

}  // namespace

void ConvertOptions::validate(const Cli& given) const {
  const auto refuse = [](const std::string& problem) {
    throw Error(ErrorKind::kUsage, problem, "retina-convert --help");
  };
  if (checkpoint.empty() == weights.empty()) {
    refuse(weights.empty() ? "--checkpoint: is required (or --import)"
                           : "--checkpoint and --import are both given");
  }
  if (output.empty()) refuse("--output: is required");
  const bool imports = !weights.empty();
  given.check_mode(imports ? kImport : kConvert, imports ? "--import" : "--checkpoint");
  check_output_name(*this);
  // What excludes or needs another option.
  if (import_task == Task::kClassification && anchor_sizes) {
    refuse("--anchor-sizes: not with --task classify");
  }
  if (onnx_weights == WeightType::kInt8 && verification_data.empty()) {
    refuse("--weights int8: needs --data, images for calibration");
  }
  if (!repository.empty() && no_postprocess) {
    refuse("--repository: the service gives detections (got --no-postprocess)");
  }
  if (!service_name.empty() && !is_service_name(service_name)) {
    refuse(cat("--service-name: not a name (got \"", service_name,
               "\", want letters, digits, _ . -, at most 128)"));
  }
  // Values.
  onnx_form();
  ModelConfig import_model = import_config();
  import_model.class_count = 1;  // known when the file is read
  import_model.validate();
  postprocess().validate();
}

void ConvertOptions::check_task(Task task) const {
  if (task == Task::kDetection) return;
  for (const auto& [name, is_given] : {std::pair{"score-threshold", score_threshold.has_value()},
                                       {"nms-threshold", nms_threshold.has_value()},
                                       {"max-detections", max_detections.has_value()},
                                       {"no-postprocess", no_postprocess}}) {
    if (!is_given) continue;
    throw Error(ErrorKind::kConfig,
                cat("--", name, ": has no effect on a classifier, and ", checkpoint, " is one"),
                cat("leave out --", name));
  }
}

OnnxForm ConvertOptions::onnx_form() const {
  OnnxForm form{.weights = onnx_weights, .postprocess = !no_postprocess};
  if (!onnx_static.empty()) form.image = size_of(onnx_static);
  return form;
}

std::string ConvertOptions::service_name_of(Task task) const {
  if (!service_name.empty()) return service_name;
  return task == Task::kDetection ? kDetectorName : kClassifierName;
}

ModelConfig ConvertOptions::import_config() const {
  ModelConfig config;
  config.task = import_task.value_or(config.task);
  const InputSides sides = default_sides(config.task, config.backbone);
  config.min_side_px = min_side_px.value_or(sides.min_px);
  config.max_side_px = max_side_px.value_or(sides.max_px);
  if (anchor_sizes) config.anchor_sizes = *anchor_sizes;
  return config;
}

ImportOptions ConvertOptions::import_options() const {
  return {.weights = weights,
          .output = output,
          .categories = categories,
          .norm_eps = norm_eps,
          .config = import_config(),
          .overwrite = overwrite};
}

void declare_options(Cli& cli, ConvertOptions& options) {
  cli.group("Files");
  cli.option(
      "checkpoint", options.checkpoint, "RUN|C.pt|NAME",
      "folder of retina-train (its best checkpoint, without validation its last), checkpoint, or "
      "the name of a detector that `make weights` has fetched beside --output (coco-v1, coco-v2)",
      {.foreign = kForeignModels, .remark = "for a checkpoint of ours, --import for a .pth file"});
  cli.option("output", options.output, "MODEL",
             "inference model to write, NAME.onnx; with --import a checkpoint, NAME.pt",
             {.foreign = kForeignOutputs});
  cli.flag("overwrite", options.overwrite,
           "replace an output that was made with other inputs or options",
           {.foreign = kForeignOverwrites});
  cli.group("Form of the model");
  cli.choice("weights", options.onnx_weights, kWeightTypes,
             "how they are stored: f16 halves the file; int8 (with --data) quarters it and is "
             "faster on CPUs",
             {.modes = kConvert,
              .foreign = "weights=fp16 weights=half weights=float16 bf16 fp16 half use-fp16 amp "
                         "mixed-precision use-amp int8 quantize quantise",
              .remark = "f16 or int8"});
  cli.option("onnx-static", options.onnx_static, "HxW",
             "all images have this size, for runtimes that want to know it; unset: any size",
             {.modes = kConvert,
              .foreign = "imgsz img-size img image-size imgsize input-size img-scale resolution "
                         "input-shape imgs shape",
              .remark = "HxW where the size must be fixed"});
  cli.flag("no-postprocess", options.no_postprocess,
           "of a detector: give every anchor's box and scores, suppress nothing",
           {.modes = kConvert});
  cli.option("weights-calibration", options.calibration_image_count, "COUNT",
             "int8: images of --data for calibration and for the accuracy that it reports",
             {.least = 1, .most = 10'000, .part_of = "weights"});
  cli.group("Serving");
  cli.option("repository", options.repository, "DIR",
             "also write DIR/NAME/ as NVIDIA Triton and MLServer load it", {.modes = kConvert});
  cli.option("service-name", options.service_name, "NAME",
             cat("name of the model in --repository [", kDetectorName, ", a classifier's ",
                 kClassifierName, "]"),
             {.needs = "repository"});
  cli.group("Weights of torchvision");
  cli.option("import", options.weights, "WEIGHTS.pth",
             "RetinaNet (v1 or v2) or ImageNet classifier, as torch.save writes them");
  cli.choice("task", options.import_task, kTaskOptions,
             "what the checkpoint is for: of a classifier, detect takes the backbone, classify its "
             "last layer too; unset: detect",
             {.modes = kImport});
  cli.option(
      "categories", options.categories, "FILE|coco",
      "names of its classes: annotations.json, for classify also a text with a name a line [coco "
      "for 91 classes]",
      {.modes = kImport, .foreign = "names class-names classes-file num-classes nc label-map"});
  cli.option("norm-eps", options.norm_eps, "EPS",
             "added to the variance in batch norm [0 for 91 classes of v1, MobileNetV3 classifier "
             "0.001, else 1e-05]",
             {.least = 0, .below = 1, .modes = kImport});
  const std::string resnet = ModelConfig{}.backbone;
  const InputSides detector = default_sides(Task::kDetection, resnet),
                   classifier = default_sides(Task::kClassification, resnet);
  cli.option("anchor-sizes", options.anchor_sizes, "PX,PX,PX,PX,PX",
             cat("base anchor of P3..P7 that it was trained with; unset: ",
                 anchor_sizes_text(ModelConfig{}.anchor_sizes)),
             {.modes = kImport});
  cli.option("min-side", options.min_side_px, "PX",
             cat("its images are resized so that the shorter side is this; a classifier's: its "
                 "square; unset: ",
                 detector.min_px, ", classify ", classifier.min_px),
             {.modes = kImport});
  cli.option("max-side", options.max_side_px, "PX",
             cat("upper limit of the longer side; a classifier's: the shorter side that the square "
                 "is cut from; unset: ",
                 detector.max_px, ", classify ", classifier.max_px),
             {.modes = kImport});
  cli.group("Detections of the model");
  const PostprocessOptions defaults;
  cli.option("score-threshold", options.score_threshold, "P",
             cat("detections score above this; unset: ", defaults.score_threshold),
             {.least = 0, .most = 1, .foreign = kForeignScores});
  cli.option("nms-threshold", options.nms_threshold, "IOU",
             cat("of two boxes of a class that overlap more than this, the better stays; unset: ",
                 defaults.nms_threshold),
             {.least = 0, .most = 1, .foreign = kForeignNms});
  cli.option("max-detections", options.max_detections, "D",
             cat("best detections kept per image; unset: ", defaults.max_detections),
             {.least = 1, .foreign = kForeignMostDetections});
  cli.group("Verification that the model equals the checkpoint");
  cli.option("verification-images", options.verification_image_count, "COUNT",
             "images to compare on", {.least = 1, .most = 10'000});
  cli.urls({"data"});
  cli.option("data", options.verification_data, "SHARDS",
             "take them from here (default: generated)", {.foreign = kForeignData});
  cli.choice(
      "device", options.device, kDeviceChoices,
      "where the checkpoint's network runs for it; the model runs on the CPU",
      {.foreign = "cpu no-cuda gpus gpu gpu-id cuda",
       .remark = "cuda or cpu, for the verification (CUDA_VISIBLE_DEVICES chooses the GPU)"});
  cli.modes({"conversion", "import"});
  cli.foreign("format include export-format onnx to-onnx target",
              "an inference model is an ONNX file, which --output names: NAME.onnx");
  cli.foreign("dynamic dynamic-axes batch-dynamic opset opset-version simplify",
              "batch and size are dynamic unless --onnx-static fixes the size; opset 17");
  cli.validate([&options](const Cli& given) { options.validate(given); });
}

}  // namespace retina
