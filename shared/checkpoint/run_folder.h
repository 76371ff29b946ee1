// The checkpoints in a RUN folder, which retina-train writes: their names, the index of them,
// and which of them stands for the run.
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

// Where training stands after `step` updates.
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

// File name for a checkpoint at this point.
std::string checkpoint_name(const RunPoint& point);
bool is_checkpoint_name(const std::string& name);
// All checkpoint files of the folder, unverified, by name.
std::vector<std::string> checkpoint_files(const std::string& folder);

// The checkpoints of the folder, ascending steps. Each is described by the index as long as the
// seal at its end is the one that they list; otherwise by the file itself, read whole. Damaged ones
// are left out.
std::vector<CheckpointEntry> list_checkpoints(const std::string& folder);
// `entries` ascending, at least one. Written when it differs from what is there. Throws
// kCannotCreate, kIo.
void write_index(const std::string& folder, const std::vector<CheckpointEntry>& entries);

// The one with the highest AP, on ties the first, of APs of 0 the last; null when none was
// validated.
const CheckpointEntry* best_of(const std::vector<CheckpointEntry>& entries);

// Called in a handler. What cannot be read now may be whole: only a damaged checkpoint is skipped,
// with a warning, and one that its run has removed meanwhile; anything else is rethrown.
void skip_damaged(const Error& error, const std::string& path);

// The checkpoint that stands for `path`: for a run's folder its best or, without validation, its
// last, intact either way, and a line of the log says which; for anything else `path` itself.
// Throws kNoInput (a folder without checkpoints), kData (none is whole), kIo.
std::string resolve_checkpoint(const std::string& path);

}  // namespace retina
