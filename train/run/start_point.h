// What a run continues from: the newest checkpoint of its folder that is whole.
#pragma once

#include <optional>
#include <string>

#include "shared/checkpoint/checkpoint.h"
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

}  // namespace retina
