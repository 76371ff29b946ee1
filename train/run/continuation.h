// Finds the checkpoint that a run continues from, and checks that it may: rank 0 calls this before
// it changes a run's folder.
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

// Returns the newest checkpoint that is whole; a damaged newer one costs a warning. Reads only the
// file that it loads: the index describes older ones as long as the seals at their ends are those
// that it lists. Fills the index. Rank 0.
std::optional<Found> newest_checkpoint(RunDir& dir);

// The settings of the run that wants to continue. check_continues() throws kConfig, one error
// listing all that differs, unless the checkpoint's run had the same training set, model, and
// options, except those that `may_change`: each image once an epoch and the weights' bits depend on
// them.
struct Continuation {
  const RunConfig& config;
  ModelConfig model = {};
  bool has_weights = false;           // --init names weights
  bool has_trainable_layers = false;  // --trainable-layers is given, so it is compared as it is
};
void check_continues(const Found& found, const Continuation& now);

// Checks --resume `file` where the folder holds a run: throws kConfig unless it is `newest`, its
// newest checkpoint, or the file that the run began from, as when its command is given again.
void check_asked_for(const RunDir& dir, const Found& newest, const std::string& file);

// A file that training starts from, as the command line names it.
struct StartFile {
  const char* option;  // "--init"
  const std::string& file;
};

// Throws kConfig when `source` is a checkpoint in the folder, which --overwrite would remove.
void check_keeps(const RunDir& dir, const StartFile& source);

}  // namespace retina
