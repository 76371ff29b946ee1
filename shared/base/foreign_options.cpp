#include "shared/base/foreign_options.h"

#include <algorithm>
#include <utility>

#include "shared/base/cat.h"

namespace retina {
namespace {

constexpr const char* kPrograms[] = {"retina-train", "retina-eval", "retina-convert", "coco-pack"};

constexpr const char* kPerGpu =
    "one process drives one GPU: mpirun -np N starts N of them, CUDA_VISIBLE_DEVICES chooses";

// What all four programs answer alike.
constexpr ForeignOption for_all(const char* names, const char* answer) {
  return {.names = names, .pack = answer, .train = answer, .eval = answer, .convert = answer};
}

constexpr ForeignOption kTable[] = {
    // Data.
    {.names =
         "data dataset data-path data-dir dataset-path data-root dataroot root coco-path train-dir "
         "train-data train-path data-config",
     .pack = "--annotations (the labels, or data.yaml) and --images (the folder)",
     .train = "--train and --validation, folders that coco-pack wrote",
     .eval = "--data, a folder that coco-pack wrote",
     .convert = "--data, a folder that coco-pack wrote"},
    {.names = "train",
     .pack = "--annotations (the labels, or data.yaml) and --images (the folder)",
     .eval = "--data, a folder that coco-pack wrote",
     .convert = "--data, a folder that coco-pack wrote"},
    {.names = "val val-dir val-data val-path validation-data valid test-dir",
     .train = "--validation",
     .eval = "--data, a folder that coco-pack wrote"},
    {.names = "ann-file ann annotation annotations-file labels labels-dir json anno gt anno-json "
              "annot-path",
     .pack = "--annotations",
     .eval = "--annotations"},
    {.names = "image-dir images-dir img-dir img-path image-path image-root source img-folder "
              "image-folder "
              "input input-dir",
     .pack = "--images",
     .eval = "--images"},
    {.names = "names class-names classes-file num-classes nc label-map",
     .pack = "--classes",
     .train = "classes are those of the packed set: coco-pack --classes",
     .convert = "--categories"},
    {.names = "val-split train-split test-split split-ratio", .pack = "--split"},
    // Where results go.
    for_all("project name save-dir work-dir output-dir out out-dir outdir outputs o output-path "
            "run-dir run-name log-dir logdir checkpoint-dir checkpoints-dir ckpt-dir save-path "
            "model-dir default-root-dir export-dir output-file snapshot-path",
            "--output"),
    for_all("exist-ok force overwrite-output-dir clobber", "--overwrite"),
    {.names = "tb tensorboard-dir use-tensorboard tensorboard-log-dir", .train = "--tensorboard"},
    // Weights.
    {.names =
         "weights pretrained pretrained-weights load-from load-weights init-weights finetune "
         "finetune-from weights-backbone backbone-weights pretrained-backbone imagenet-weights "
         "weights-path",
     .train = "--init (foreign weights first through retina-convert --import)",
     .eval = "--model",
     .convert = "--checkpoint for a checkpoint of ours, --import for a .pth file"},
    {.names = "no-weights", .train = "--init none"},
    {.names = "checkpoint checkpoint-path ckpt ckpt-path model-path model model-file snapshot arch "
              "network",
     .train = "--backbone names the network, --init its first weights, --resume a checkpoint to "
              "continue from",
     .eval = "--model",
     .convert = "--checkpoint"},
    {.names =
         "resume resume-from auto-resume resume-from-checkpoint continue continue-train restore "
         "resume-path last initial-epoch start-epoch",
     .pack = "the same command again continues",
     .train = "the same command again continues what is in --output; --resume FILE begins at a "
              "checkpoint"},
    // Length, batch, speed.
    {.names = "epochs num-epochs n-epochs nb-epochs max-epochs total-epochs train-epochs",
     .train = "--epochs"},
    {.names =
         "steps max-steps max-iter max-iters iterations num-steps iters num-iterations total-steps "
         "num-train-steps train-steps",
     .train = "--steps"},
    {.names = "batch-size batch b bs batchsize train-batch-size images-per-batch ims-per-batch "
              "total-batch-size global-batch-size images-per-step train-batch batch-sz",
     .train = "--images-per-step (all ranks together)",
     .eval = "--images-per-batch"},
    {.names = "images-per-gpu imgs-per-gpu samples-per-gpu batch-size-per-gpu per-gpu-batch-size "
              "per-device-train-batch-size per-device-batch-size batch-per-gpu micro-batch-size",
     .train = "--images-per-rank",
     .eval = "--images-per-batch"},
    {.names = "accumulate accumulation-steps gradient-accumulation-steps grad-accum "
              "accumulate-grad-batches accum-iter grad-accum-steps",
     .train = "--micro-batch, how many of a rank's images go through the network at once"},
    {.names = "workers num-workers j n-workers nworkers workers-per-gpu num-threads cpu-workers "
              "dataloader-num-workers n-cpu jobs nproc",
     .pack = "--threads",
     .train = "--threads (decoding, per rank)",
     .eval = "--threads"},
    {.names =
         "gpus num-gpus n-gpus ngpus ngpu gpu multi-gpu gpu-ids gpu-id devices device "
         "nproc-per-node "
         "world-size nnodes nodes num-nodes num-machines local-rank rank dist-url dist-backend "
         "launcher master-addr master-port distributed multiprocessing-distributed ddp accelerator "
         "strategy cuda",
     .train = kPerGpu,
     .eval = kPerGpu,
     .convert = "--device cuda, for the verification (CUDA_VISIBLE_DEVICES chooses the GPU)"},
    {.names = "cpu no-cuda",
     .train = "--device cpu",
     .eval = "--device cpu",
     .convert = "--device cpu"},
    {.names = "bf16 autocast",
     .train = "--precision bf16",
     .eval = "--precision bf16",
     .convert = "--weights f16"},
    {.names = "fp16 half use-fp16",
     .train = "--precision fp16",
     .eval = "--precision fp16",
     .convert = "--weights f16"},
    {.names = "amp mixed-precision use-amp",
     .train = "--precision bf16, or fp16 on GPUs before Ampere",
     .eval = "--precision bf16, or fp16 on GPUs before Ampere",
     .convert = "--weights f16"},
    {.names = "loss-scale grad-scaler init-scale",
     .train = "--precision fp16, which scales its gradients by itself"},
    {.names = "int8 quantize quantise", .convert = "--weights int8"},
    // Images.
    {.names = "imgsz img-size img image-size imgsize input-size img-scale resolution "
              "image-min-side "
              "input-shape imgs shape min-size max-size image-max-side resize width height",
     .pack = "--max-side; retina-train resizes by --min-side and --max-side",
     .train = "--min-side and --max-side",
     .eval = "images are resized as the model was trained, by retina-train --min-side and "
             "--max-side",
     .convert = "--onnx-static HxW where the size must be fixed"},
    {.names = "tile-size patch-size slice-size slice-height slice-width chip-size crop-size tiles "
              "slice tiling",
     .pack = "--tile",
     .train = "images are cut while they are packed: coco-pack --tile",
     .eval = "--tile"},
    {.names = "overlap patch-overlap slice-overlap overlap-ratio overlap-height-ratio "
              "overlap-width-ratio",
     .pack = "--tile SIDE,overlap=SHARE",
     .eval = "--tile SIDE,overlap=SHARE"},
    {.names = "multi-scale multiscale scales", .train = "--min-sides"},
    {.names = "augmentation data-augmentation hflip-prob fliplr hyp hflip aug random-transform aa",
     .train = "--augment SET, or one with details: --augment flip,rotation=0.1"},
    {.names = "flip flipud vflip vertical-flip degrees rotation shear translate translation scale "
              "scale-jitter crop hsv-h hue hsv-s saturation hsv-v brightness contrast fill",
     .train =
         "--augment SET,NAME=VALUE with vertical-flip, rotation (radians), shear, translation, "
         "scale, scale-jitter, crop, hue, saturation, brightness, contrast, fill"},
    {.names = "mosaic close-mosaic mixup cutmix copy-paste use-copypaste",
     .train = "images are not mixed; --augment chooses a set of changes of each one"},
    {.names = "rect group-method aspect-ratio-group-factor",
     .train = "images of like aspect ratio share a step without being told"},
    // Optimiser.
    {.names =
         "learning-rate lr0 base-lr init-lr initial-lr blr lr-init solver-base-lr optimizer-lr",
     .train = "--lr"},
    {.names = "auto-scale-lr scale-lr linear-scale-lr", .train = "--lr-scaling linear"},
    {.names = "opt optim solver optimiser", .train = "--optimizer"},
    {.names = "wd decay l2", .train = "--weight-decay"},
    {.names = "lr-scheduler scheduler sched lr-policy schedule", .train = "--lr-schedule"},
    {.names = "cos-lr cosine", .train = "--lr-schedule cosine"},
    {.names = "lr-steps lr-step-size milestones decay-epochs lr-drop lr-decay-epochs",
     .train = "--lr-drop-at"},
    {.names = "lr-gamma gamma decay-rate reduce-lr-factor", .train = "--lr-drop-factor"},
    {.names = "lrf final-lr min-lr", .train = "--lr-schedule (cosine falls to 0)"},
    {.names = "reduce-lr-patience", .train = "--plateau-patience"},
    {.names = "warmup warmup-iters warmup-epochs lr-warmup-epochs warmup-iterations",
     .train = "--warmup-steps"},
    {.names = "clip-grad clip-max-norm grad-clip gradient-clip-val max-grad-norm clip-grad-norm "
              "gradient-clip optimizer-clipnorm clipnorm",
     .train = "--clip-norm"},
    {.names = "model-ema model-ema-decay ema-decay use-ema", .train = "--ema"},
    {.names = "freeze freeze-layers freeze-backbone freeze-at trainable-backbone-layers",
     .train = "--trainable-layers"},
    {.names = "sync-batchnorm syncbn sync-batch-norm", .train = "--sync-bn on"},
    {.names = "patience early-stopping early-stopping-patience", .train = "--early-stop"},
    {.names = "backbone-name encoder", .train = "--backbone"},
    // Saving and validating.
    {.names = "save-period save-interval save-freq checkpoint-interval save-every save-steps "
              "snapshot-interval checkpoint-freq",
     .train = "--checkpoint-every"},
    {.names = "save-total-limit max-keep-ckpts keep-checkpoints checkpoint-hist",
     .train = "--keep"},
    {.names = "val-interval eval-interval eval-every eval-period val-every eval-freq "
              "check-val-every-n-epoch validation-interval",
     .train = "--validate-every"},
    {.names = "evaluate eval eval-only test-only test validate noval",
     .train = "retina-eval evaluates a run: --model RUN --data SHARDS"},
    {.names = "deterministic manual-seed random-seed", .train = "--seed"},
    {.names = "use-deterministic-algorithms", .train = "--deterministic-reduce on"},
    {.names = "no-evaluation", .train = "--validate-every 0 (validates at the end only)"},
    // Detections and models.
    {.names =
         "conf conf-thres confidence score-thr score-thresh conf-threshold confidence-threshold "
         "score-thres threshold thresh conf-thresh",
     .eval = "--score-threshold",
     .convert = "--score-threshold"},
    {.names = "iou iou-thres nms nms-thr nms-thresh iou-threshold iou-thresh",
     .eval = "--nms-threshold",
     .convert = "--nms-threshold"},
    {.names = "max-det max-dets detections-per-img max-per-img keep-top-k topk",
     .eval = "--max-detections",
     .convert = "--max-detections"},
    {.names = "results predictions dt pred results-json res-file", .eval = "--detections"},
    {.names = "save-txt save-conf", .eval = "--output-format yolo"},
    {.names = "save-csv", .eval = "--output-format csv"},
    {.names = "show visualize vis save-img show-dir save-images plot plots",
     .pack = "--inspect SHARDS --image-id ID --draw OUT.jpg",
     .train = "--preview",
     .eval = "--draw"},
    {.names = "format",
     .train = "retina-convert writes the model for inference, an ONNX file",
     .eval = "--output-format",
     .convert = "an inference model is an ONNX file, which --output names: NAME.onnx"},
    {.names = "include export-format onnx to-onnx target",
     .convert = "an inference model is an ONNX file, which --output names: NAME.onnx"},
    {.names = "format=deepforest format=keras-retinanet format=retinanet format=tensorflow "
              "format=openimages format=open-images",
     .pack = "--format csv"},
    {.names = "format=geojson", .pack = "--format xview"},
    {.names = "dynamic dynamic-axes batch-dynamic opset opset-version simplify",
     .convert = "batch and size are dynamic unless --onnx-static fixes the size; opset 17"},
    // The rest.
    for_all("h", "--help"),
    for_all("verbose v debug quiet q", "--log-level"),
    for_all("cfg config-file cfg-options opts args c", "--config FILE.json"),
    for_all("dry-run", "--check-args")};

// As the table has it: "Batch_Size" is batch-size.
std::string normal_name(std::string name) {
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '_' || c == '.') c = '-';
  }
  return name;
}

bool has_word(const std::string& words, const std::string& word) {
  return (" " + words + " ").find(" " + word + " ") != std::string::npos;
}

// Insertions, deletions and substitutions that turn `a` into `b` (Levenshtein).
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string ForeignOption::of(const std::string& program) const {
  if (program == "coco-pack") return pack;
  if (program == "retina-train") return train;
  if (program == "retina-eval") return eval;
  return program == "retina-convert" ? convert : "";
}

std::span<const ForeignOption> foreign_options() {
  return kTable;
}

std::string foreign_value_answer(const std::string& program, const std::string& name,
                                 const std::string& value) {
  const auto own_answer = [&](const std::string& wanted) -> std::string {
    for (const ForeignOption& row : kTable) {
      const std::string own = row.of(program);
      if (!own.empty() && has_word(row.names, wanted)) {
        return cat(own.starts_with("--") ? "here it is " : "", own);
      }
    }
    return "";
  };
  const std::string of_value = own_answer(normal_name(cat(name, "=", value)));
  if (!of_value.empty()) return of_value;
  const std::string of_name = own_answer(normal_name(name));
  return of_name.find(cat("--", name)) == std::string::npos ? of_name : "";
}

std::string foreign_option_answer(const std::string& program, const std::string& name) {
  const std::string wanted = normal_name(name);
  for (const ForeignOption& row : kTable) {
    if (!has_word(row.names, wanted)) continue;
    const std::string own = row.of(program);
    if (!own.empty()) return cat(own.starts_with("--") ? "here it is " : "", own);
    for (const char* other : kPrograms) {
      const std::string answer = row.of(other);
      if (answer.empty()) continue;
      return cat("it is for ", other, answer.starts_with("--") ? ": " : "; ", answer);
    }
  }
  return "";
}

std::string nearest_match(const std::string& name, const std::vector<std::string>& candidates) {
  std::string nearest;
  std::size_t best = name.size() / 2 + 2;
  for (const auto& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace retina
