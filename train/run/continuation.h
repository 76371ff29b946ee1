// What a run continues from, and whether it may: rank 0 asks before a run's folder is touched.
#pragma once

#include <optional>
#include <string>

#include "shared/checkpoint/checkpoint.h"
#include "shared/model/config.h"
#include "train/run/run_config.h"
#include "train/run/run_dir.h"

namespace retina {

// A checkpoint to start from, with its file's name.
struct Found {
  Checkpoint checkpoint;
  std::string path;
};

// The newest checkpoint that is whole; a damaged newer one costs a warning. Only what is loaded is
// read: the older ones are described by the index as long as the seals at their ends are those that
// the index lists. Fills the index. Rank 0.
std::optional<Found> newest_checkpoint(RunDir& dir);

// Throws kConfig, one error listing all that differs, unless the checkpoint's run had the same
// training set, model, and options, except those that `may_change`: each image once an epoch and
// the weights' bits depend on them.
struct Continuation {
  const RunConfig& config;
  ModelConfig model = {};
  bool has_weights = false;           // --init names some
  bool has_trainable_layers = false;  // --trainable-layers is given, and so compared as it is
};
void check_continues(const Found& found, const Continuation& now);

// --resume `file` where the folder holds a run: throws kConfig unless it is `newest`, its newest
// checkpoint, or what the run began from, as when its command is given again.
void check_asked_for(const RunDir& dir, const Found& newest, const std::string& file);

// A file that training is to start from, as the command line names it.
struct StartFile {
  const char* option;  // without the dashes
  const std::string& file;
};

// --overwrite removes the checkpoints in the folder: throws kConfig when `source` is one.
void check_keeps(const RunDir& dir, const StartFile& source);

}  // namespace retina
