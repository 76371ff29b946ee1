#include "evaluate/options.h"

#include <utility>
#include <vector>

#include "shared/base/cli.h"
#include "shared/base/error.h"
#include "shared/base/printable.h"
#include "shared/evaluation/score/box_groups.h"
#include "shared/image/stretch.h"

namespace retina {

namespace {

constexpr std::int64_t kMostTilePx = 16384;  // more would not bound the memory
constexpr double kMostTileOverlap = 0.9;

[[noreturn]] void refuse(const std::string& problem) {
  throw Error(ErrorKind::kUsage, problem, "run retina-eval --help");
}

template <class T>
void check_range(const char* name, T got, T low, T high) {
  if (got >= low && got <= high) return;
  refuse(cat("--", name, ": out of range (got ", got, ", want ", low, "..", high, ")"));
}

// Options by their names, and whether they were given.
using Given = std::vector<std::pair<const char*, bool>>;

void refuse_given(const Given& options, const char* reason) {
  for (const auto& [name, is_given] : options) {
    if (is_given) refuse(cat("--", name, ": has no effect with ", reason));
  }
}

// What only a model's run takes, all of it but --min-ap.
Given model_options(const EvalOptions& options) {
  return {{"min-top1", options.min_top1.has_value()},
          {"score-threshold", options.score_threshold.has_value()},
          {"nms-threshold", options.nms_threshold.has_value()},
          {"max-detections", options.max_detections.has_value()},
          {"max-images", options.max_images != 0},
          {"stretch", !options.stretch.empty()},
          {"tile", !options.tile.empty()},
          {"tile-overlap", options.tile_overlap != EvalOptions().tile_overlap},
          {"tile-whole", !options.tile_whole},
          {"tile-merge", options.tile_merge.kind != TileMerge().kind},
          {"tile-match", options.tile_merge.match != TileMerge().match},
          {"tile-match-threshold", options.tile_merge.threshold != TileMerge().threshold},
          {"draw", options.draw != 0}};
}

void check_comparison(const EvalOptions& options) {
  if (!options.data.empty() && !options.annotations.empty()) {
    refuse("give either --annotations or --data, not both");
  }
  constexpr const char* kReason = "--compare";
  refuse_given({{"model", !options.model.empty()},
                {"images", !options.images.empty()},
                {"detections", !options.detections.empty()},
                {"min-ap", options.min_ap.has_value()}},
               kReason);
  refuse_given(model_options(options), kReason);
  refuse_given({{"output-format", options.output_format != OutputFormat::kCoco},
                {"precision", options.precision != Precision::kFp32}},
               kReason);
}

void check_scoring(const EvalOptions& options) {
  if (options.detections.empty()) refuse("--detections is missing");
  if (options.annotations.empty() == options.data.empty()) {
    refuse(options.data.empty() ? "--annotations or --data is missing"
                                : "give either --annotations or --data, not both");
  }
  constexpr const char* kReason = "--detections, which are scored whole";
  refuse_given(model_options(options), kReason);
  refuse_given({{"precision", options.precision != Precision::kFp32}}, kReason);
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
  if (on_images && options.min_ap) {
    refuse("--min-ap: with --images there is no ground truth, so no AP");
  }
  if (on_images && options.count_best) {
    refuse("--count-best: with --images there is no ground truth, so nothing to count");
  }
  if (on_images && options.min_top1) {
    refuse("--min-top1: with --images there is no ground truth, so no accuracy");
  }
  if (!on_images && options.output_format != OutputFormat::kCoco) {
    refuse(cat("--output-format ", word_of(kOutputFormats, options.output_format),
               ": only applies with --images"));
  }
  if (!on_images && !with_results) {
    refuse_given({{"stretch", !options.stretch.empty()}}, "--data, whose images are packed");
  }
  if (!options.stretch.empty() && !parse_stretch(options.stretch)) {
    refuse(cat("--stretch: got ", escaped(options.stretch),
               ", want two percentiles LOW,HIGH with 0 <= LOW < HIGH <= 100, as 2,98"));
  }
  if (options.min_ap && options.min_top1) {
    refuse("--min-ap or --min-top1: a model detects or classifies, not both");
  }
  if (with_results) check_scoring(options);
}

// Shards may hold tiles, which are merged without --tile.
void check_tiling(const EvalOptions& options) {
  for (const std::int64_t side_px : options.tile) {
    check_range<std::int64_t>("tile", side_px, kLeastTilePx, kMostTilePx);
  }
  check_range("tile-overlap", options.tile_overlap, 0.0, kMostTileOverlap);
  check_range("tile-match-threshold", options.tile_merge.threshold, 0.01, 1.0);
  if (!options.tile.empty()) return;
  constexpr const char* kReason = "no --tile";
  const TileMerge usual;
  refuse_given({{"tile-overlap", options.tile_overlap != EvalOptions().tile_overlap},
                {"tile-whole", !options.tile_whole}},
               kReason);
  if (options.images.empty()) return;
  refuse_given({{"tile-merge", options.tile_merge.kind != usual.kind},
                {"tile-match", options.tile_merge.match != usual.match},
                {"tile-match-threshold", options.tile_merge.threshold != usual.threshold}},
               kReason);
}

}  // namespace

void EvalOptions::validate() const {
  compares() ? check_comparison(*this) : check_inputs(*this);
  if (output.empty()) refuse("--output is missing");
  check_range("expect-ranks", expect_ranks, 0, 1'000'000);
  if (count_best) {
    check_range("count-best", *count_best, int{kMaxDetectionsPerImage}, 1'000'000);
  }
  if (compares()) return;
  if (min_ap) check_range("min-ap", *min_ap, 0.0, 1.0);
  if (min_top1) check_range("min-top1", *min_top1, 0.0, 1.0);
  if (score_threshold) check_range("score-threshold", *score_threshold, 0.0, 1.0);
  if (nms_threshold) check_range("nms-threshold", *nms_threshold, 0.0, 1.0);
  if (max_detections) check_range("max-detections", *max_detections, 1, 100'000);
  check_range<std::int64_t>("max-images", max_images, 0, std::int64_t{1} << 40);
  check_tiling(*this);
  check_range("draw", draw, 0, 100'000);
  check_range("draw-score", draw_score, 0.0, 1.0);
  check_range("stall-timeout", watch.stall_timeout_s, 1.0, 1e6);
  check_range("images-per-batch", images_per_batch, 0, 1024);
  check_range("threads", threads, 0, 1024);
  check_range("compute-threads", compute_threads, 0, 1024);
}

PostprocessOptions EvalOptions::postprocess() const {
  PostprocessOptions result;
  result.score_threshold = score_threshold.value_or(result.score_threshold);
  result.nms_threshold = nms_threshold.value_or(result.nms_threshold);
  result.max_detections = max_detections.value_or(result.max_detections);
  return result;
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
             "weights` has fetched (coco-v1, coco-v2)");
  cli.urls({"data"});
  cli.option("data", options.data, "SHARDS", "folder that coco-pack wrote, or its URL");
  cli.list("images", options.images, "PATH...",
           "instead of --data: detect on these JPEG, PNG, TIFF and WebP files: each PATH a file, a "
           "folder (all below it) or a quoted glob; files that cannot be used are named and "
           "skipped, exit 65 when none can be");
  cli.option("stretch", options.stretch, "LOW,HIGH",
             "with --images: take TIFFs and PNGs of 9 to 16 bits a sample and TIFFs of more than "
             "three bands, of "
             "which the first three are red, green and blue; each channel is stretched between "
             "these two percentiles of the image, as 2,98. Give what coco-pack --stretch was "
             "given");
  cli.option("scratch", options.scratch, "DIR",
             "local disk: shards are copied here when their mount cannot map files [$TMPDIR]");
  cli.group("Scoring only");
  cli.option("detections", options.detections, "RESULTS.json", "COCO results to score");
  cli.option("annotations", options.annotations, "INSTANCES.json",
             "COCO ground truth for them; or --data SHARDS, whose images the page then shows");
  cli.group("Two evaluations side by side");
  cli.pair(
      "compare", options.compare, "A B",
      "each a folder that retina-eval wrote or a COCO results JSON, on the ground truth of the "
      "folders unless --annotations or --data says otherwise");
  cli.group("Output");
  cli.option("output", options.output, "DIR",
             "folder for metrics.json, detections.json (of a classifier predictions.jsonl), "
             "report.html; with --images for "
             "images.json, detections.json, left_out.json; with --compare for compare.json, "
             "compare.html");
  cli.choice(
      "output-format", options.output_format, kOutputFormats,
      "with --images, beside detections.json: yolo: labels/NAME.txt for each image and "
      "data.yaml; csv: detections.csv; geojson: detections.geojson, polygons in the coordinates of "
      "GeoTIFFs");
  cli.option("min-ap", options.min_ap, "X", "exit 1 when AP@[.50:.95] is below this");
  cli.option("min-top1", options.min_top1, "X",
             "of a classifier: exit 1 when its top-1 accuracy, 0..1, is below this");
  cli.option("draw", options.draw, "COUNT",
             "write this many images with drawn detections to DIR/drawn");
  cli.option("draw-score", options.draw_score, "P", "draw detections of at least this score");
  cli.flag("overwrite", options.overwrite, "replace another evaluation in DIR");
  cli.group("Detection");
  cli.option("score-threshold", options.score_threshold, "P",
             cat("detections score above this; unset: ", defaults.score_threshold,
                 ", or what the model was converted with"));
  cli.option("nms-threshold", options.nms_threshold, "IOU",
             cat("of two boxes of a class that overlap more than this, the better stays; unset: ",
                 defaults.nms_threshold, ", or as converted"));
  cli.option("max-detections", options.max_detections, "D",
             cat("best detections kept per image or tile; unset: ", defaults.max_detections,
                 ", or as converted"));
  cli.option("max-images", options.max_images, "N", "only the first N images by id; 0: all");
  cli.option("count-best", options.count_best, "N",
             cat("best detections of an image and class that count in AP and recall, of results "
                 "files too; unset: ",
                 kMaxDetectionsPerImage, ", as COCO, and ", kMaxDetectionsOnTiles, " on tiles"));
  cli.group("Large images: tiles");
  cli.option("tile", options.tile, "SIDE[,SIDE...]",
             "detect on overlapping tiles of this side, pixels, and merge what is found into "
             "detections on whole images; several sides: a grid of each. For --data of whole "
             "images and --images, which may then be of any size");
  cli.option("tile-overlap", options.tile_overlap, "SHARE",
             "how much neighbouring tiles overlap, as a share of the side, 0..0.9: an object of "
             "at most this size is whole in one of them");
  cli.on_off("tile-whole", options.tile_whole,
             "also detect on all of each image that is larger than a tile, scaled as without "
             "--tile: for objects that fit in no tile");
  cli.choice("tile-merge", options.tile_merge.kind, kTileMergeKinds,
             "of boxes of a class that match, the best stays as it is (nms), or becomes the hull "
             "of all that match it (greedy-nmm), or of these and all that match them (nmm)");
  cli.choice("tile-match", options.tile_merge.match, kTileMatches,
             "boxes match by the part that they share: of their union (iou), or of the smaller "
             "one (ios)");
  cli.option("tile-match-threshold", options.tile_merge.threshold, "SHARE",
             "from this part on they match, 0.01..1");
  cli.group("Machine");
  cli.choice("device", options.device, kDeviceChoices, "where the model runs");
  cli.choice("precision", options.precision, kPrecisions,
             "of a checkpoint's convolutions; a converted model computes in fp32 only");
  cli.option("expect-ranks", options.expect_ranks, "N",
             "refuse to start with a different number; 0: any");
  cli.option(
      "stall-timeout", options.watch.stall_timeout_s, "SECONDS",
      "end the job when a rank is silent this long (stopped, cut off, frozen), or others wait "
      "this long, and half an hour, for one that is alive but makes no progress");
  cli.option("images-per-batch", options.images_per_batch, "N",
             "images in a batch, at most; they have one padded shape; 0: 1 on a CPU, 8 on a GPU");
  cli.option("threads", options.threads, "N",
             "decode threads per rank; 0: one, and another each time the network waits for "
             "images, up to "
             "the node's cores shared among its ranks");
  cli.option("compute-threads", options.compute_threads, "N",
             "threads for the network per rank; 0: the node's cores shared among its ranks");
  cli.validate([&options] { options.validate(); });
}

}  // namespace retina
