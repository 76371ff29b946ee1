#include "preprocess/app.h"

#include <algorithm>
#include <iostream>
#include <span>
#include <vector>

#include "preprocess/image_check.h"
#include "preprocess/inspect.h"
#include "preprocess/merge.h"
#include "preprocess/options.h"
#include "preprocess/output_folder.h"
#include "preprocess/packer.h"
#include "preprocess/page/data_page.h"
#include "preprocess/summary.h"
#include "preprocess/verify.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"
#include "shared/base/program.h"
#include "shared/base/signals.h"
#include "shared/cli/cli.h"
#include "shared/cli/foreign_names.h"
#include "shared/shard/set_notes.h"

namespace retina {
namespace {

// Modes of the program, for the rules of its options.
constexpr unsigned kPack = 1, kPackCifar10 = 2, kOther = 4;

struct CommandLine {
  PackOptions pack{};
  std::string verify{};  // folder
  std::string merge{};   // folder
  InspectOptions inspect{};

  void validate(const Cli& given) const {
    const bool packs = !pack.annotations.empty() || !pack.images.empty() || !pack.output.empty();
    const int modes = (packs ? 1 : 0) + (verify.empty() ? 0 : 1) + (merge.empty() ? 0 : 1) +
                      (inspect.folder.empty() ? 0 : 1);
    if (modes > 1) {
      throw Error(ErrorKind::kUsage, "packing, --merge, --verify and --inspect exclude each other",
                  "run them one after the other");
    }
    if (!verify.empty() || !merge.empty() || !inspect.folder.empty()) {
      given.check_mode(kOther, !merge.empty() ? "--merge" : "--verify and --inspect");
      return inspect.validate();
    }
    const bool is_cifar10 = pack.format == AnnotationFormat::kCifar10;
    given.check_mode(is_cifar10 ? kPackCifar10 : kPack, "--format cifar10");
    pack.validate();
  }
};

void declare_packing(Cli& cli, PackOptions& pack) {
  cli.group("Packing");
  cli.choice("format", pack.format, kAnnotationFormats,
             "what --annotations is: COCO's instances JSON, Pascal VOC's folder of XML files or a "
             "list ImageSets/Main/NAME.txt beside it, a CSV with a line a box (as of "
             "keras-retinanet, DeepForest, TensorFlow, Open Images), YOLO's data.yaml, with the "
             "labels of --images .../images/SPLIT in .../labels/SPLIT, xView's GeoJSON, or DOTA's "
             "folder labelTxt; for classification, without annotations: folders, --images has a "
             "folder of images for each class; cifar10, the binary version of CIFAR-10");
  cli.option(
      "annotations", pack.annotations, "PATH",
      "file or folder of --format; with folders, where --images is not divided by classes "
      "(ImageNet's validation set): lines of FILE,CLASS, or a class id a line for the images in "
      "the order of their names, 1 for the first line of --classes",
      {.modes = kPack,
       .foreign = "data dataset data-path data-dir dataset-path data-root dataroot root coco-path "
                  "train train-dir train-data train-path data-config ann-file ann annotation "
                  "annotations-file labels labels-dir json anno gt anno-json annot-path",
       .remark = "(the labels, or data.yaml) and --images (the folder)"});
  cli.option(
      "classes", pack.classes, "FILE",
      "lines of CLASS,ID or of a class name: with csv, voc and dota it fixes the ids, which are "
      "otherwise those of the names in order. With xview the published xview_class_labels.txt, or "
      "lines of CLASS,ID. With folders a class name a line, in the order of the labels, which is "
      "otherwise that of the names; of a line with a WordNet id (n01440764 tench, Tinca tinca) "
      "that id. Pack training and validation set with the same file",
      {.foreign = "names class-names classes-file num-classes nc label-map"});
  cli.option(
      "images", pack.images, "DIR",
      cat("folder that the annotations' file names are relative to, with cifar10 the folder of its "
          "batches (the training ones are packed) or one batch; a finished set compares ",
          kSampledImages, " of its images, and all that are quarantined, with the files there"),
      {.foreign = "image-dir images-dir img-dir img-path image-path image-root source img-folder "
                  "image-folder input input-dir"});
  cli.option("output", pack.output, "SHARDS", "folder to write; an interrupted run continues",
             {.foreign = kForeignOutputs});
  cli.option("split", pack.split, "SHARE",
             "write two sets, SHARDS/train with this share of the images and SHARDS/validation; "
             "identical files go to the same one",
             {.above = 0, .below = 1, .foreign = "val-split train-split test-split split-ratio"});
  cli.option(
      "split-by", pack.split_by, "folder|PATTERN",
      "keep groups of images, as frames of a video, on one side: those of one folder, or those "
      "whose file names have the same match of a regular expression, or of its first (group)",
      {.needs = "split"});
  cli.option("scratch", pack.scratch, "DIR",
             "local disk: shards are built here, then copied to --output and checked; also for "
             "--verify and --inspect where SHARDS is a URL, or lies on a mount that cannot map "
             "files [beside the output]");
  cli.bytes("shard-size", pack.shard_size_bytes, "largest size of one shard file");
  cli.option("threads", pack.threads, "N", "decode threads, also for --verify; 0: one per core",
             {.least = 0, .most = 1024, .foreign = kForeignThreads});
  cli.option(
      "max-side", pack.max_side_px, "PX",
      "re-encode larger images so that the longer side is this; scales their boxes too",
      {.least = 1,
       .most = 65500,
       .modes = kPack,
       .foreign =
           "imgsz img-size img image-size imgsize input-size img-scale resolution image-min-side "
           "input-shape imgs shape min-size max-size image-max-side resize width height",
       .remark = "; retina-train resizes by --min-side and --max-side"});
  cli.flag("convert", pack.convert, "also take PNG, TIFF and WebP images, which are re-encoded",
           {.modes = kPack});
  cli.option("stretch", pack.stretch, "LOW,HIGH",
             "with --convert: also take TIFFs and PNGs of 9 to 16 bits a sample, and TIFFs of more "
             "than three bands, the first three as red, green and blue; each channel is stretched "
             "between these two percentiles of its image, as 2,98",
             {.needs = "convert"});
  cli.choice("exif", pack.exif, kExifPolicies,
             "images whose EXIF data say that they are stored rotated: used as stored, as COCO's "
             "annotations do; turned upright, for annotations of the upright image; or bad",
             {.modes = kPack});
  cli.choice("encoding", pack.encoding, kImageEncodings,
             "re-encoded images and tiles: as JPEG, or as raw RGB pixels, larger but lossless");
  cli.option("quality", pack.quality, "Q",
             "JPEG quality of re-encoded images and tiles, 1..100; default 90",
             {.least = 1, .most = 100, .modes = kPack});
  cli.choice("check", pack.check, kImageChecks,
             "decode every image, or read the headers alone: faster, but damage shows only when "
             "training decodes it, or ends the packing where --tile meets it",
             {.modes = kPack});
  cli.option("tile", pack.tile_px, "SIDE",
             "cut every image into overlapping tiles of this side in pixels, of which each is a "
             "record; evaluation scores whole images",
             {.least = 32, .most = 16384, .foreign = kForeignTiles});
  cli.option("tile-overlap", pack.tile_overlap, "SHARE",
             "of neighbouring tiles, as a share of the side [0.2]",
             {.least = 0, .most = 0.9, .needs = "tile", .part_of = "tile"});
  cli.option("tile-visibility", pack.tile_visibility, "SHARE",
             "least share of a box that a tile must show for it to be an object there; one of "
             "which less is visible is ignored there [0.4]",
             {.least = 0, .most = 1, .needs = "tile", .part_of = "tile"});
  cli.option("tile-empty", pack.tile_empty, "SHARE",
             "share of the tiles without any box that are kept; the validation part of --split "
             "keeps all [1]",
             {.least = 0, .most = 1, .needs = "tile", .part_of = "tile"});
  cli.choice("on-bad-image", pack.on_bad_image,
             {{"quarantine", BadImage::kQuarantine}, {"fail", BadImage::kFail}},
             "quarantine images that are missing, damaged or of the wrong size, or stop");
  cli.flag("overwrite", pack.overwrite,
           "replace the data set that --output holds once the new one is whole: there must be room "
           "for both; an interrupted run continues",
           {.foreign = kForeignOverwrites});
}

void declare_parts(Cli& cli, CommandLine& line) {
  cli.group("Packing in parts");
  cli.option("part", line.pack.part, "K/N",
             "pack the Kth of N parts of the set: N processes, on any machines that share "
             "--output, with the same options; then --merge",
             {.modes = kPack | kPackCifar10});
  cli.option("merge", line.merge, "SHARDS",
             "verify the parts in this folder and publish them as one set");
  cli.option("parts", line.pack.parts, "N",
             "pack in N processes on this machine, with a share of --threads each, and merge",
             {.least = 0, .most = kMaxParts, .modes = kPack | kPackCifar10});
}

void declare_checking(Cli& cli, CommandLine& line) {
  cli.group("Checking");
  cli.urls({"verify", "inspect"});
  cli.option("verify", line.verify, "SHARDS",
             "re-read every byte of a folder or URL: checksums, decoding, counts; exit 1 if "
             "anything is wrong");
  cli.option("inspect", line.inspect.folder, "SHARDS",
             "print what the data set of a folder or URL holds",
             {.foreign = "show visualize vis save-img show-dir save-images plot plots",
              .remark = "SHARDS --image NAME --draw OUT.jpg"});
  cli.option("image", line.inspect.image_file, "NAME",
             "with --inspect: print the boxes of the image with this file name, or with one that "
             "ends so: 17.jpg finds street/17.jpg; of a set of tiles, list the image's tiles, or "
             "print one by its place: 17.jpg+1600+0",
             {.needs = "inspect", .foreign = "image-file image-id"});
  cli.option("image-id", line.inspect.image_id, "ID",
             "select by image id instead, or as well where several images share a file name",
             {.needs = "inspect", .part_of = "image"});
  cli.option("draw", line.inspect.draw, "OUT.jpg", "with --image: draw the boxes",
             {.needs = "inspect"});
  cli.option("export-annotations", line.inspect.export_annotations, "OUT.json",
             "with --inspect: write the set's labels as COCO instances JSON with the original file "
             "names and ids, whatever format they came from",
             {.needs = "inspect"});
}

Cli make_cli(CommandLine& line) {
  Cli cli(
      "coco-pack",
      "coco-pack --annotations FILE.json --images DIR --output SHARDS [options]\n"
      "coco-pack --format voc|csv|yolo|xview|dota --annotations PATH --images DIR --output SHARDS\n"
      "coco-pack --format folders --images DIR [--classes FILE] [--annotations FILE]\n"
      "          --output SHARDS\n"
      "coco-pack --format cifar10 --images DIR|FILE.bin --output SHARDS\n"
      "coco-pack --part K/N ... --output SHARDS    (for each K; then:)\n"
      "coco-pack --merge SHARDS\n"
      "coco-pack --verify SHARDS\n"
      "coco-pack --inspect SHARDS [--image NAME|id=ID [--draw OUT.jpg]]\n"
      "coco-pack --inspect SHARDS --export-annotations OUT.json",
      "packs a data set into a few large shards, once and checked");
  declare_packing(cli, line.pack);
  declare_parts(cli, line);
  declare_checking(cli, line);
  cli.modes({"packing", "packing CIFAR-10", "merging and checking"});
  cli.foreign(
      "format=deepforest format=keras-retinanet format=retinanet format=tensorflow "
      "format=openimages format=open-images",
      "--format csv");
  cli.foreign("format=geojson", "--format xview");
  cli.foreign("resume resume-from auto-resume continue restore",
              "the same command again continues");
  cli.validate([&line](const Cli& given) { line.validate(given); });
  return cli;
}

void warn_of_bad_images(const Manifest& manifest, const std::string& output) {
  if (manifest.counts.quarantined == 0) return;
  const std::int64_t all = manifest.counts.quarantined + manifest.counts.source_images();
  log_warning(manifest.counts.quarantined, " of ", counted(all, "image"),
              manifest.counts.quarantined == 1 ? " is" : " are",
              " quarantined; names and reasons are in ", output, "/", kQuarantineFile);
}

void warn_of_small_boxes(const PackResult& result, const std::string& output) {
  const auto trainable = static_cast<double>(result.manifest.counts.trainable);
  const auto far = static_cast<double>(result.far_from_anchors);
  if (far == 0 || far < kReportedShare * trainable) {
    if (!result.tile_advice.empty()) log_warning(output, ": ", result.tile_advice);
    return;
  }
  log_warning(result.far_from_anchors, " of ",
              counted(result.manifest.counts.trainable, "box", "boxes"),
              result.far_from_anchors == 1 ? " is" : " are",
              " too small or too thin for retina-train's default anchors (",
              size_of_boxes_text(result.manifest), "); ",
              result.tile_advice.empty() ? "consider a larger --min-side or smaller --anchor-sizes"
                                         : result.tile_advice);
}

void print_finished(const std::string& name, const Manifest& manifest) {
  std::cout << name << ": already finished, " << images_text(manifest.counts) << " in "
            << counted(manifest.shards.size(), "shard") << "\n";
}

void print_packed(const std::string& output, const PackResult& result) {
  if (result.was_finished) return print_finished(output, result.manifest);
  warn_of_bad_images(result.manifest, output);
  warn_of_small_boxes(result, output);
  if (!result.lost_in_tiles.empty()) log_warning(output, ": ", result.lost_in_tiles);
  const std::vector<std::string> notes = set_notes(result.manifest);
  for (std::size_t i = result.manifest.notes.size(); i < notes.size(); ++i) {
    log_warning(output, ": ", notes[i]);  // the others were told before packing
  }
  std::cout << describe_result(output, result);
  const std::string page = cat(output, "/", kDataPageFile);
  if (path_exists(page)) std::cout << "report: " << page << "\n";
}

void pack_set(const PackOptions& options) {
  const PackResult result = pack(options);
  if (options.part.empty()) return print_packed(options.output, result);
  const std::string name = cat(options.output, ": part ", options.part);
  if (result.was_finished) return print_finished(name, result.manifest);
  std::cout << name << ": packed\n" << describe_counts(result.manifest);
}

// Warns about the two sets beside each other.
void warn_of_split(const PackOptions& options) {
  std::vector<ShardSet> sets;
  for (const PackOptions& side : options.sets()) sets.emplace_back(side.output, options.scratch);
  const std::span<const ShardSet> train(sets.data(), 1);
  for (const std::string& note : validation_notes(train, sets[1])) {
    log_warning(sets[1].folder(), ": ", note);
  }
}

// A set, and a folder that holds two, are not the same.
void check_holds_no_set(const std::string& output) {
  if (!is_manifest(output + "/" + kManifestFile)) return;
  throw Error(ErrorKind::kConfig, cat(output, ": is a data set, --split writes two into it"),
              "choose another --output");
}

constexpr double kStopLimitS = 0.5;

int run_pack(const PackOptions& options) {
  // What waits for a mount or reads a large file may take longer than a stop; a set continues from
  // its finished shards wherever it was ended.
  install_stop_signals(
      {.limit_s = kStopLimitS,
       .ended = "; run the same command again to continue from the shards that are finished"});
  if (options.split) check_holds_no_set(options.output);
  for (const PackOptions& set : options.sets()) pack_set(set);
  if (options.split && options.part.empty()) warn_of_split(options);
  return 0;
}

// Merges the parts of a set, or of the two of --split.
int run_merge(const CommandLine& line) {
  install_stop_signals({.limit_s = kStopLimitS, .ended = "; run the same command again"});
  MergeOptions options{.output = line.merge,
                       .scratch = line.pack.scratch,
                       .overwrite = line.pack.overwrite,
                       .thread_count = line.pack.thread_count()};
  PackOptions split{.output = line.merge, .split = 0.5};
  const auto is_there = [](const PackOptions& set) {
    return holds_set(set.output) || !begun_parts(set.output).empty();
  };
  const std::vector<PackOptions> sides = split.sets();
  if (is_there(split) || !std::any_of(sides.begin(), sides.end(), is_there)) {
    print_packed(options.output, merge_parts(options));
    return 0;
  }
  for (const PackOptions& side : sides) {
    options.output = side.output;
    print_packed(options.output, merge_parts(options));
  }
  warn_of_split(split);
  return 0;
}

int run_verify(const CommandLine& line) {
  const VerifyResult result = verify_shards({.folder = line.verify,
                                             .scratch = line.pack.scratch,
                                             .thread_count = line.pack.thread_count(),
                                             .on_problem = [](const std::string& problem) {
                                               std::cout << escaped(problem, kWholeText)
                                                         << std::endl;
                                             }});
  if (result.problem_count > 0) {
    throw Error(ErrorKind::kAnswerNo,
                cat(line.verify, ": damaged, ", counted(result.problem_count, "problem"), " found"),
                "copy the data set again, or pack it again with --overwrite");
  }
  std::cout << line.verify << ": intact, " << images_text(result.counts) << ", "
            << (result.task == Task::kDetection
                    ? cat(counted(result.counts.boxes, "box", "boxes"), ", ")
                    : "")
            << human_bytes(static_cast<double>(result.size_bytes)) << "\n";
  return 0;
}

}  // namespace

int coco_pack(int argc, const char* const* argv) {
  return run_program("coco-pack", [&] {
    CommandLine line;
    Cli cli = make_cli(line);
    if (cli.parse(argc, argv) == CliOutcome::kDone) return 0;
    if (!line.merge.empty()) return run_merge(line);
    if (!line.verify.empty()) return run_verify(line);
    if (!line.inspect.folder.empty()) {
      line.inspect.scratch = line.pack.scratch;
      std::cout << inspect(line.inspect);
      return 0;
    }
    return run_pack(line.pack);
  });
}

}  // namespace retina
