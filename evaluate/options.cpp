#include "evaluate/options.h"

#include <utility>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/printable.h"
#include "shared/cli/cli.h"
#include "shared/cli/foreign_names.h"
#include "shared/evaluation/score/box_groups.h"
#include "shared/image/stretch.h"

namespace retina {

namespace {

constexpr std::int64_t kMostTilePx = 16384;  // more would not bound the memory

// What the program does, for the rules of its options.
constexpr unsigned kOnShards = 1, kOnImages = 2, kScoring = 4, kComparing = 8;
constexpr unsigned kWithModel = kOnShards | kOnImages;

[[noreturn]] void refuse(const std::string& problem) {
  throw Error(ErrorKind::kUsage, problem, "run retina-eval --help");
}

void check_comparison(const EvalOptions& options) {
  if (!options.data.empty() && !options.annotations.empty()) {
    refuse("give either --annotations or --data, not both");
  }
}

void check_scoring(const EvalOptions& options) {
  if (options.detections.empty()) refuse("--detections is missing");
  if (options.annotations.empty() == options.data.empty()) {
    refuse(options.data.empty() ? "--annotations or --data is missing"
                                : "give either --annotations or --data, not both");
  }
}

// What is to be evaluated, and what only some of that takes.
void check_inputs(const EvalOptions& options) {
  const bool with_results = !options.detections.empty() || !options.annotations.empty();
  const bool on_images = !options.images.empty();
  const bool with_model =
      !options.model.empty() || on_images || (!options.data.empty() && options.detections.empty());
  if (with_model && with_results) {
    refuse(
        "give --model with --data or --images, or --detections with --annotations or --data, not "
        "both");
  }
  if (!with_model && !with_results) {
    refuse(
        "nothing to evaluate: give --model and --data, --detections and --annotations or --data, "
        "or --compare");
  }
  if (with_model && options.model.empty()) refuse("--model is missing");
  if (with_model && options.data.empty() && !on_images) refuse("--data or --images is missing");
  if (!options.data.empty() && on_images) refuse("give either --data or --images, not both");
  if (!options.stretch.empty() && !parse_stretch(options.stretch)) {
    refuse(cat("--stretch: got ", escaped(options.stretch),
               ", want two percentiles LOW,HIGH with 0 <= LOW < HIGH <= 100, as 2,98"));
  }
  if (with_results) check_scoring(options);
}

// The mode in which the program is, and how the user chose it.
std::pair<unsigned, const char*> mode_of(const EvalOptions& options) {
  if (options.compares()) return {kComparing, "--compare"};
  if (options.scores_only()) return {kScoring, "--detections, which are scored whole"};
  if (options.images.empty()) return {kOnShards, "--data, whose images are packed"};
  return {kOnImages, "--images, which have no ground truth"};
}

// Shards may hold tiles, which are merged without --tile; images do not.
void check_tile_merge(const EvalOptions& options) {
  const TileMerge& merge = options.tile_merge;
  const TileMerge usual;
  const bool is_usual =
      merge.kind == usual.kind && merge.match == usual.match && merge.threshold == usual.threshold;
  if (options.images.empty() || !options.tile.empty() || is_usual) return;
  refuse("--tile merge, match and match-threshold: have no effect without tiles");
}

}  // namespace

void EvalOptions::validate(const Cli& given) const {
  compares() ? check_comparison(*this) : check_inputs(*this);
  const auto [mode, words] = mode_of(*this);
  given.check_mode(mode, words);
  if (output.empty()) refuse("--output is missing");
  for (const std::string& word : output_formats) {
    if (value_of(kOutputFormats, word)) continue;
    refuse(cat("--output-format: bad value (got \"", word, "\", want ",
               words_of(kOutputFormats, ", "), ")"));
  }
  check_tile_merge(*this);
}

std::uint32_t EvalOptions::detection_limit(bool on_tiles) const {
  if (count_best) return static_cast<std::uint32_t>(*count_best);
  return on_tiles ? kMaxDetectionsOnTiles : kMaxDetectionsPerImage;
}

void declare_options(Cli& cli, EvalOptions& options) {
  const PostprocessOptions defaults;
  cli.group("A model over shards or images (alone or under mpirun)");
  cli.option("model", options.model, "RUN|MODEL.onnx|NAME",
             "folder of retina-train (its best checkpoint, without validation its last), "
             "checkpoint, inference model of retina-convert, or the name of a detector that `make "
             "weights` has fetched (coco-v1, coco-v2)",
             {.modes = kWithModel, .foreign = kForeignModels});
  cli.urls({"data"});
  cli.option("data", options.data, "SHARDS", "folder that coco-pack wrote, or its URL",
             {.modes = kOnShards | kScoring | kComparing, .foreign = kForeignData});
  cli.list("images", options.images, "PATH...",
           "instead of --data: detect on these JPEG, PNG, TIFF and WebP files: each PATH a file, a "
           "folder (all below it) or a quoted glob; files that cannot be used are named and "
           "skipped, exit 65 when none can be",
           {.modes = kOnImages,
            .foreign = "image-dir images-dir img-dir img-path image-path image-root source "
                       "img-folder image-folder input input-dir"});
  cli.option(
      "stretch", options.stretch, "LOW,HIGH",
      "with --images: take TIFFs and PNGs of 9 to 16 bits a sample and TIFFs of more than three "
      "bands, of which the first three are red, green and blue; each channel is stretched between "
      "these two percentiles of the image, as 2,98. Give what coco-pack --stretch was given",
      {.modes = kOnImages});
  cli.option("scratch", options.scratch, "DIR",
             "local disk: shards are copied here when their mount cannot map files [$TMPDIR]");
  cli.group("Scoring only");
  cli.option("detections", options.detections, "RESULTS.json", "COCO results to score",
             {.modes = kScoring, .foreign = "results predictions dt pred results-json res-file"});
  cli.option("annotations", options.annotations, "INSTANCES.json",
             "COCO ground truth for them; or --data SHARDS, whose images the page then shows",
             {.modes = kScoring | kComparing,
              .foreign = "ann-file ann annotation annotations-file labels labels-dir json anno gt "
                         "anno-json annot-path"});
  cli.group("Two evaluations side by side");
  cli.pair("compare", options.compare, "A B",
           "each a folder that retina-eval wrote or a COCO results JSON, on the ground truth of "
           "the folders unless --annotations or --data says otherwise");
  cli.group("Output");
  cli.option("output", options.output, "DIR",
             "folder for metrics.json, detections.json (of a classifier predictions.jsonl), "
             "report.html; with --images for images.json, detections.json, left_out.json; with "
             "--compare for compare.json, compare.html",
             {.foreign = kForeignOutputs});
  cli.option(
      "output-format", options.output_formats, "coco|yolo|csv|geojson[,...]",
      "with --images, beside detections.json: yolo: labels/NAME.txt for each image and data.yaml; "
      "csv: detections.csv; geojson: detections.geojson, polygons in the coordinates of GeoTIFFs",
      {.modes = kOnImages, .foreign = "format save-txt save-conf save-csv"});
  cli.option("min-score", options.min_score, "X",
             "exit 1 when AP@[.50:.95], or a classifier's top-1 accuracy (0..1), is below this",
             {.least = 0, .most = 1, .modes = kOnShards | kScoring, .foreign = "min-ap min-top1"});
  cli.option("draw", options.draw, "COUNT",
             "write this many images with drawn detections to DIR/drawn",
             {.least = 0,
              .most = 100'000,
              .modes = kWithModel,
              .foreign = "show visualize vis save-img show-dir save-images plot plots"});
  cli.option("draw-score", options.draw_score, "P", "draw detections of at least this score",
             {.least = 0, .most = 1, .modes = kWithModel, .part_of = "draw"});
  cli.flag("overwrite", options.overwrite, "replace another evaluation in DIR",
           {.foreign = kForeignOverwrites});
  cli.group("Detection");
  cli.option("score-threshold", options.score_threshold, "P",
             cat("detections score above this; unset: ", defaults.score_threshold,
                 ", or what the model was converted with"),
             {.least = 0, .most = 1, .modes = kWithModel, .foreign = kForeignScores});
  cli.option("nms-threshold", options.nms_threshold, "IOU",
             cat("of two boxes of a class that overlap more than this, the better stays; unset: ",
                 defaults.nms_threshold, ", or as converted"),
             {.least = 0, .most = 1, .modes = kWithModel, .foreign = kForeignNms});
  cli.option("max-detections", options.max_detections, "D",
             cat("best detections kept per image or tile; unset: ", defaults.max_detections,
                 ", or as converted"),
             {.least = 1, .most = 100'000, .modes = kWithModel, .foreign = kForeignMostDetections});
  cli.option("max-images", options.max_images, "N", "only the first N images by id; 0: all",
             {.least = 0, .modes = kWithModel});
  cli.option("count-best", options.count_best, "N",
             cat("best detections of an image and class that count in AP and recall, of results "
                 "files too; unset: ",
                 kMaxDetectionsPerImage, ", as COCO, and ", kMaxDetectionsOnTiles, " on tiles"),
             {.least = kMaxDetectionsPerImage, .most = 1'000'000, .modes = ~kOnImages});
  cli.group("Large images: tiles");
  cli.option(
      "tile", options.tile, "SIDE[,SIDE...]",
      "detect on overlapping tiles of this side, pixels, and merge what is found into detections "
      "on whole images; several sides: a grid of each. For --data of whole images and --images, "
      "which may then be of any size",
      {.least = kLeastTilePx, .most = kMostTilePx, .modes = kWithModel, .foreign = kForeignTiles});
  cli.option("tile-overlap", options.tile_overlap, "SHARE",
             "how much neighbouring tiles overlap, as a share of the side, 0..0.9: an object of at "
             "most this size is whole in one of them",
             {.least = 0, .most = 0.9, .modes = kWithModel, .needs = "tile", .part_of = "tile"});
  cli.on_off("tile-whole", options.tile_whole,
             "also detect on all of each image that is larger than a tile, scaled as without "
             "--tile: for objects that fit in no tile",
             {.modes = kWithModel, .needs = "tile", .part_of = "tile"});
  cli.choice("tile-merge", options.tile_merge.kind, kTileMergeKinds,
             "of boxes of a class that match, the best stays as it is (nms), or becomes the hull "
             "of all that match it (greedy-nmm), or of these and all that match them (nmm)",
             {.modes = kWithModel, .part_of = "tile"});
  cli.choice(
      "tile-match", options.tile_merge.match, kTileMatches,
      "boxes match by the part that they share: of their union (iou), or of the smaller one (ios)",
      {.modes = kWithModel, .part_of = "tile"});
  cli.option("tile-match-threshold", options.tile_merge.threshold, "SHARE",
             "least such part at which they match, 0.01..1",
             {.least = 0.01, .most = 1, .modes = kWithModel, .part_of = "tile"});
  cli.group("Machine");
  cli.choice("device", options.device, kDeviceChoices, "where the model runs",
             {.foreign = "cpu no-cuda", .remark = "cpu"});
  cli.choice("precision", options.precision, kPrecisions,
             "of a checkpoint's convolutions; a converted model computes in fp32 only",
             {.modes = kWithModel,
              .foreign = "bf16 autocast fp16 half use-fp16 amp mixed-precision use-amp",
              .remark = "bf16, or fp16 on GPUs before Ampere"});
  cli.option("expect-ranks", options.expect_ranks, "N",
             "refuse to start unless there are N ranks; 0: any number", {.least = 0});
  cli.option("stall-timeout", options.watch.stall_timeout_s, "SECONDS",
             "end the job when a rank is silent this long (stopped, cut off, frozen), or others "
             "wait this long, and half an hour, for one that is alive but makes no progress",
             {.least = 1, .most = 1e6});
  cli.option("images-per-batch", options.images_per_batch, "N",
             "images in a batch, at most; they have one padded shape; 0: 1 on a CPU, 8 on a GPU",
             {.least = 0,
              .most = 1024,
              .foreign = "batch-size batch b bs batchsize images-per-gpu imgs-per-gpu "
                         "samples-per-gpu batch-size-per-gpu per-device-batch-size batch-per-gpu"});
  cli.option("threads", options.threads, "N",
             "decode threads per rank; 0: one, and another each time the network waits for images, "
             "up to the node's cores shared among its ranks",
             {.least = 0, .most = 1024, .foreign = kForeignThreads});
  cli.option("compute-threads", options.compute_threads, "N",
             "threads for the network per rank; 0: the node's cores shared among its ranks",
             {.least = 0, .most = 1024});
  cli.modes({"--model on --data", "--model on --images", "--detections", "--compare"});
  cli.foreign(
      "gpus num-gpus n-gpus ngpus ngpu gpu multi-gpu gpu-ids gpu-id devices device nproc-per-node "
      "world-size nnodes num-nodes local-rank rank distributed cuda",
      kOneProcessAGpu);
  cli.foreign(
      "imgsz img-size img image-size imgsize input-size img-scale resolution resize width height "
      "min-size max-size shape",
      "images are resized as the model was trained, by retina-train --min-side and --max-side");
  cli.validate([&options](const Cli& given) { options.validate(given); });
}

}  // namespace retina
