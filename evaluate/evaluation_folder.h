// retina-eval's output folder: the only code that knows its file names. Only rank 0 uses it.
//
//   config.json        what was evaluated and how; written first
//   detections.json    COCO results (with --model, a detector)
//   predictions.jsonl  what was said of each image (with --model, a classifier)
//   drawn/             images with detections (with --draw)
//   report.html
//   metrics.json       the numbers; written last: an evaluation with it is finished
//
// With --images, instead of report.html and metrics.json:
//
//   left_out.json      the files that were skipped, and why
//   detections.csv     with --output-format csv
//   labels/, data.yaml with --output-format yolo: a text file for each image, the classes' names
//   images.json        COCO's "images" and "categories"; written last
//
// A comparison of two evaluations (--compare) has instead of all but config.json:
//
//   compare.html
//   compare.json       written last
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/output.h"
#include "shared/cli/cli.h"

namespace retina {

// The inputs, by the hash of their content, and the settings, as JSON literals, that decide the
// result.
using EvalIdentity = std::vector<std::pair<std::string, std::string>>;

// The ground truth of a stored evaluation.
struct StoredTruth {
  bool is_shards = false;       // else a COCO file
  bool is_tiled = false;        // shards of tiles
  std::string path{};           // as given to that evaluation
  std::string hash{};           // hash of the COCO file, or of the shards' manifest
  std::int64_t max_images = 0;  // evaluated images, first by id; 0: all
  std::int64_t count_best = 0;  // EvalOptions::detection_limit()
};

// A finished evaluation as a reader of its results sees it.
struct StoredEvaluation {
  bool is_classification = false;
  // Path of the COCO results: in the folder, or the file that was scored; for a classifier, of its
  // predictions.
  std::string results{};
  std::string results_hash{};  // hash of the scored file; empty for the folder's own
  StoredTruth truth{};
};

// Reads config.json. Throws kNoInput when the folder does not hold a finished evaluation.
StoredEvaluation read_evaluation(const std::string& folder);
inline constexpr int kDrawnQuality = 90;  // quality of the JPEGs in drawn/

class EvaluationFolder {
 public:
  // Creates the folder and locks it. Throws kCannotCreate, kConfig.
  explicit EvaluationFolder(std::string folder);

  const std::string& path() const { return folder_; }
  std::string metrics_path() const { return folder_ + "/metrics.json"; }
  std::string detections_path() const { return folder_ + "/detections.json"; }
  std::string predictions_path() const { return folder_ + "/predictions.jsonl"; }
  std::string report_path() const { return folder_ + "/report.html"; }
  std::string skipped_path() const { return folder_ + "/left_out.json"; }
  std::string images_path() const { return folder_ + "/images.json"; }
  std::string csv_path() const { return folder_ + "/detections.csv"; }
  std::string geojson_path() const { return folder_ + "/detections.geojson"; }
  std::string yolo_data_path() const { return folder_ + "/data.yaml"; }
  // Returns a path below labels/, in a folder that is made where it is missing.
  std::string label_path(const std::string& name) const;
  std::string compare_path() const { return folder_ + "/compare.json"; }
  std::string compare_page_path() const { return folder_ + "/compare.html"; }
  // Returns a path with a part of the image's file name: "drawn/12_holiday_beach.jpg"; without a
  // name "drawn/12.jpg"; for a `part` (DrawnImage) of a large image
  // "drawn/12_holiday_beach.whole.jpg".
  std::string drawn_path(std::int64_t image_id, const std::string& name,
                         const std::string& part = "") const;

  // Starts an evaluation or comparison, or finds it done: returns the last file of a finished one
  // with the same identity, of which a comparison has kComparedA and kComparedB, a classifier's
  // evaluation kTask. Removes the files of another evaluation, except for the `inputs`, which this
  // one reads. With --images, `image_names` are those of all images that may be used: labels and
  // drawings of others are not ours. Throws Error{kConfig} listing the differences when the folder
  // holds another evaluation and `overwrite` is not set; and, in any case, when the folder is a
  // training run's or a file that no evaluation wrote would be replaced.
  std::optional<JsonFile> begin(const EvalIdentity& identity,
                                const std::vector<EffectiveOption>& options, bool overwrite,
                                const std::vector<std::string>& inputs = {},
                                const std::vector<std::string>& image_names = {});
  static constexpr const char* kComparedA = "compare-a";
  static constexpr const char* kComparedB = "compare-b";
  static constexpr const char* kOutputFormat = "output-format";  // --images'; absent for coco
  static constexpr const char* kCountBest = "count-best";        // absent for COCO's limit
  static constexpr const char* kTask = "task";  // kClassificationTask; absent for detection

  // Throws kIo when the folder that begin() wrote to is gone: nothing may be written in its place.
  void check_present() const;

  enum class Kind { kModel, kClassifier, kResults, kImages, kComparison };
  // Returns the kind by the identity in a config.json; nothing when neither an evaluation nor a
  // comparison wrote it.
  static std::optional<Kind> kind_of(const JsonView& identity);

 private:
  void check_is_no_run() const;
  // Returns the config.json here when an evaluation or a comparison wrote it.
  std::optional<JsonFile> stored_config() const;
  // Returns the files here that an evaluation of this kind writes, first the one that it writes
  // last.
  std::vector<std::string> written(const JsonView& identity,
                                   const std::vector<std::string>& image_names) const;
  std::string last_path(Kind kind) const {
    return kind == Kind::kComparison ? compare_path()
           : kind == Kind::kImages   ? images_path()
                                     : metrics_path();
  }
  std::string config_path() const { return folder_ + "/config.json"; }
  std::string folder_;
  FolderLock lock_;
};

// Returns AP, or a classifier's top-1 accuracy, of a finished metrics.json or compare.json.
JsonView headline_metric(const JsonFile& finished);

}  // namespace retina
