#include "train/run/start_point.h"

#include <utility>
#include <vector>

#include "shared/base/error.h"

namespace retina {

std::optional<Found> newest_checkpoint(RunDir& dir) {
  std::vector<CheckpointEntry> entries = dir.found_checkpoints();
  std::optional<Found> found;
  while (!found && !entries.empty()) {
    const std::string path = dir.path(entries.back().file);
    try {
      found = Found{load_checkpoint(path), path};
    } catch (const Error& error) {
      skip_damaged(error, path);
      entries.pop_back();
    }
  }
  if (!found && !dir.checkpoint_files().empty()) {
    throw Error(ErrorKind::kData, cat(dir.path(""), ": no checkpoint of this run is whole"),
                "put one back from a copy, or start afresh with --overwrite");
  }
  dir.restore(std::move(entries));
  return found;
}

}  // namespace retina
