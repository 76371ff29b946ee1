// The checkpoints in a RUN folder, which retina-train writes: their names, their index, and which
// one represents the run.
//
//   checkpoint-{epoch}.pt          at epoch ends, the first is 01
//   checkpoint-{epoch}-{step}.pt   in between, and the last of --steps; {epoch}: in progress
//   checkpoints.json               which is last, which is best; a hint, the files decide
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/error.h"

namespace retina {

inline constexpr const char* kCheckpointIndexFile = "checkpoints.json";
inline constexpr const char* kMetricsFile = "metrics.jsonl";  // see train/monitor/metrics_log.h

// State of a training after `step` updates.
struct RunPoint {
  std::int64_t step = 0;
  std::int64_t epoch = 0;  // completed epochs, or the one in progress when !epoch_end
  bool epoch_end = false;
  std::optional<double> ap = {};  // validation AP at this point
};

struct CheckpointEntry {
  std::string file = {};  // name inside the folder
  std::int64_t step = 0;
  std::optional<double> ap = {};
  std::string xxh3 = {};
};

// Returns the file name for a checkpoint at this point.
std::string checkpoint_name(const RunPoint& point);
bool is_checkpoint_name(const std::string& name);
// Returns the names of all checkpoint files of the folder, unverified, sorted.
std::vector<std::string> checkpoint_files(const std::string& folder);

// Returns the checkpoints of the folder, ascending steps. Each is described by the index if the
// seal at its end is the one listed there; otherwise by the file itself, read whole. Damaged ones
// are left out.
std::vector<CheckpointEntry> list_checkpoints(const std::string& folder);
// Writes the index if it differs from the present one. `entries` ascending, at least one. Throws
// kCannotCreate, kIo.
void write_index(const std::string& folder, const std::vector<CheckpointEntry>& entries);

// Returns the one with the highest AP, on ties the first, among APs of 0 the last; null if none was
// validated.
const CheckpointEntry* best_of(const std::vector<CheckpointEntry>& entries);

// Skips a damaged checkpoint with a warning, or one that its run has removed meanwhile; rethrows
// anything else, since a file that cannot be read now may be intact. Call it in a handler.
void skip_damaged(const Error& error, const std::string& path);

// Returns the folder of the run in retina-run's folder; any other path as it is.
std::string run_folder_of(const std::string& path);

// Returns the checkpoint that `given` stands for: in a run's folder its best or, without
// validation, its last, intact either way, and a line of the log says which; in retina-run's folder
// those of its run; for anything else `given` itself. Throws kNoInput (a folder without
// checkpoints), kData (none is intact), kIo.
std::string resolve_checkpoint(const std::string& given);

}  // namespace retina
