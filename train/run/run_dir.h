// The RUN folder: together with shared/checkpoint/run_folder.h, which has the checkpoints and their
// index, the only code that knows its file names. Only rank 0 uses it.
//
//   config.json      effective options and their hash
//   metrics.jsonl    a JSON object a line, see metrics_log.h
//   buckets.json     how gradients travel, kept by a run that continues
//   report.html
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/file.h"
#include "shared/base/output.h"
#include "shared/checkpoint/run_folder.h"
#include "train/run/run_config.h"

namespace retina {

class RunDir {
 public:
  enum class Access { kWrite, kRead };
  // kWrite creates the folder and locks it against a second job; kRead leaves it as it is, to look
  // at a finished run where nothing can be written. Throws kCannotCreate, kConfig.
  explicit RunDir(std::string folder, Access access = Access::kWrite);

  const std::string& folder() const { return folder_; }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string metrics_path() const { return path(kMetricsFile); }
  std::string report_path() const;

  // Removes the folder if it has nothing but the lock, when no run begins after all.
  void remove_if_unused();
  // Returns true when a run was begun here.
  bool has_run() const;
  // Throws kConfig when a file here has the name of a run's file but was not written by a run of
  // this folder: another program's, or checkpoints without the config.json that names their run.
  // None of these may be replaced.
  void check_own() const;
  // Removes everything that a run writes, and nothing else; config.json last, so that an
  // interrupted removal does not leave files that look like another run's. Throws kIo when a
  // checkpoint stays.
  void clear();
  // Returns true for a checkpoint of this folder, which `clear` would remove; links are followed.
  bool has_checkpoint(const std::string& file) const;
  // Returns all options of the run in `folder`, as its command gave them or the data decided;
  // nothing without a run.
  static std::optional<OptionTexts> options_of(const std::string& folder);
  // Returns the fingerprint of the --resume FILE that the run here began from; "" when it began
  // otherwise.
  std::string resume_fingerprint() const;
  // Throws Error{kConfig} listing the options that differ from the run in this folder and may not.
  void check_same_run(const RunConfig& config) const;
  // Writes config.json if it differs from the one that is there.
  void write_config(const RunConfig& config);

  // Returns how gradients travel (reduce/bucket_plan.h); "" before the first run on several ranks.
  std::string read_buckets() const;
  void write_buckets(const std::string& json);

  // Throws kIo unless the folder has room for the checkpoints that it will keep, besides those that
  // it has, and `scratch` (empty: none) for one.
  void check_space(double checkpoint_bytes, int keep, const std::string& scratch) const;
  // Throws kIo when the folder has vanished (its mount is gone, or it was removed): nothing may be
  // written in its place then.
  void check_present() const;

  // Returns all checkpoint files here, unverified, by name.
  std::vector<std::string> checkpoint_files() const;
  // Returns those that are whole, as far as the index and the files show; see list_checkpoints.
  std::vector<CheckpointEntry> found_checkpoints() const { return list_checkpoints(folder_); }
  // Removes the half-written files of a killed run.
  void remove_leftovers();

  // Adds a checkpoint to the index: checkpoints.json is written, then all but the newest `keep` and
  // the best are removed. Throws kIo.
  void record(const CheckpointEntry& entry, int keep);
  // Returns the entries known so far (from earlier `record` calls or `restore`).
  const std::vector<CheckpointEntry>& entries() const { return entries_; }
  // Takes the entries found in verified files; `write_index` puts them on the disk, too, for a
  // killed run whose index is older than its checkpoints.
  void restore(std::vector<CheckpointEntry> entries) { entries_ = std::move(entries); }
  void write_index() const;

 private:
  std::string folder_;
  std::unique_ptr<FolderLock> lock_;
  std::vector<CheckpointEntry> entries_;  // ascending step
};

}  // namespace retina
