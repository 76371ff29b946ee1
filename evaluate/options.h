// All of retina-eval's options, filled once in main from the command line.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/choices.h"
#include "shared/evaluation/predict/tile_merge.h"
#include "shared/model/config.h"
#include "shared/model/device_choice.h"
#include "shared/model/precision.h"
#include "shared/watch/watch_options.h"

namespace retina {

class Cli;

// Formats of the files that --images writes beside detections.json; kCoco: none.
enum class OutputFormat { kCoco, kYolo, kCsv, kGeojson };
inline const Choices<OutputFormat> kOutputFormats = {{"coco", OutputFormat::kCoco},
                                                     {"yolo", OutputFormat::kYolo},
                                                     {"csv", OutputFormat::kCsv},
                                                     {"geojson", OutputFormat::kGeojson}};

// As coco-pack --tile. Below, a network's input would be all padding.
inline constexpr std::int64_t kLeastTilePx = 32;

struct EvalOptions : PostprocessChoice {
  // A model over shards ...
  std::string model{};                // checkpoint, converted model, or a run's folder: its best
  std::string data{};                 // SHARDS folder
  std::vector<std::string> images{};  // or images: files, folders, globs
  std::string scratch{};  // folder for copies of shards that cannot be mapped; empty: $TMPDIR
  // ... or existing results, on the boxes of `data` or of `annotations`.
  std::string detections{};   // COCO results JSON
  std::string annotations{};  // COCO instances JSON
  // ... or two evaluations, each an output folder of this program or a COCO results JSON.
  std::array<std::string, 2> compare{};
  std::string output{};               // folder
  std::optional<double> min_score{};  // exit 1 below this AP, or a classifier's top-1 accuracy
  std::int64_t max_images = 0;        // 0: all
  std::optional<int> count_best{};    // detections an image and class in AP, recall
  std::vector<std::string> output_formats{"coco"};  // words of kOutputFormats
  std::string stretch{};             // "2,98": percentiles that samples above 8 bits lie between
  std::vector<std::int64_t> tile{};  // sides of tiles to cut images into
  double tile_overlap = 0.2;         // overlap of neighbours, share of a side
  bool tile_whole = true;            // besides tiles all of the image
  TileMerge tile_merge = {};         // merging of detections on an image's tiles
  int draw = 0;                      // JPEGs with drawn detections to write
  double draw_score = 0.4;           // detections below are not drawn
  Precision precision = Precision::kFp32;  // a checkpoint's convolutions
  DeviceChoice device = DeviceChoice::kAuto;
  int expect_ranks = 0;      // 0: any number
  WatchOptions watch;        // times that the ranks wait for one another
  int images_per_batch = 0;  // at most, of one padded shape; 0: as DetectOptions
  int threads = 0;           // decode threads per rank; 0: as many as it takes
  int compute_threads = 0;   // 0: the node's cores shared among its ranks
  bool overwrite = false;

  // Throws Error{kUsage} naming the option; touches no file.
  void validate(const Cli& given) const;

  bool compares() const { return !compare[0].empty(); }
  // Returns true if this is among the output formats.
  bool writes(OutputFormat format) const {
    return std::ranges::count(output_formats, word_of(kOutputFormats, format)) > 0;
  }
  bool scores_only() const { return !detections.empty(); }
  // Best detections of an image and class that count; `on_tiles`: of images detected on by tiles.
  std::uint32_t detection_limit(bool on_tiles) const;
};

// Declares every option with its group, help and default.
void declare_options(Cli& cli, EvalOptions& options);

}  // namespace retina
