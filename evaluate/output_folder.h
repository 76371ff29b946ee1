// retina-eval's output folder: the only code that knows its file names. Only rank 0 uses it.
//
//   config.json        what was evaluated and how; written first
//   detections.json    COCO results (with --model)
//   drawn/             pictures with detections (with --draw)
//   report.html
//   metrics.json       the 12 numbers; written last: an evaluation with it is finished
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/cli.h"
#include "shared/base/file.h"
#include "shared/base/json.h"

namespace retina {

// What decides the result: inputs by the hash of their content, settings as JSON literals.
using EvalIdentity = std::vector<std::pair<std::string, std::string>>;

class OutputFolder {
 public:
  // Creates the folder and locks it. Throws kCannotCreate, kConfig.
  explicit OutputFolder(std::string folder);

  const std::string& path() const { return folder_; }
  std::string metrics_path() const { return folder_ + "/metrics.json"; }
  std::string detections_path() const { return folder_ + "/detections.json"; }
  std::string report_path() const { return folder_ + "/report.html"; }
  std::string drawn_path(std::int64_t image_id) const;

  // Starts an evaluation, or finds it done: the AP of a finished one with the same identity. What
  // another one wrote is removed, except for `input`, which this one reads. Throws Error{kConfig}
  // listing what differs when the folder holds another one and not `overwrite`; and, `overwrite` or
  // not, when it is a training run's or a file that no evaluation wrote would be replaced.
  std::optional<double> begin(const EvalIdentity& identity,
                              const std::vector<EffectiveOption>& options, bool overwrite,
                              const std::string& input = "");

  // Throws kIo when the folder that begin() wrote to is gone: nothing may be written in its place.
  void check_present() const;

 private:
  void check_is_no_run() const;
  // The config.json here when an evaluation wrote it.
  std::optional<JsonFile> stored_config() const;
  // The files here of the names that an evaluation of a model, or of results, writes.
  std::vector<std::string> written(bool with_model) const;
  std::string config_path() const { return folder_ + "/config.json"; }
  std::string folder_;
  FolderLock lock_;
};

}  // namespace retina
