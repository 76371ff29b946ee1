// The folder that a set goes into: whose files are there, who works in it, and how a finished set
// takes the place of the one before.
#pragma once

#include <optional>
#include <string>

#include "shared/base/file.h"
#include "shared/base/output.h"
#include "shared/shard/manifest.h"

namespace retina {

// Throws kConfig when the folder holds files with the names of a set's (manifest.json, index.bin,
// quarantine.jsonl, shards, .packing) that coco-pack did not write. One of ours, whole or damaged,
// has our manifest, our index or our journal.
void check_is_ours(const std::string& output);

// Whether the folder (of ours) holds a set, even a damaged one: without its manifest too, unless a
// run was interrupted while it published a new one.
bool holds_set(const std::string& output);

// The output folder, created if needed, and its lock. One that this object made and that was left
// empty is removed again; as that happens under the lock, never one that another packer works in.
class OutputFolder {
 public:
  // Throws kCannotCreate, kConfig (another process works there).
  explicit OutputFolder(const std::string& path);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

 private:
  std::string path_;
  bool is_new_ = false;
  std::optional<FolderLock> lock_{};
};

// Puts the set that the journal holds whole (its manifest lies there, written last; shards of a
// merge may still lie in their parts) in the place of the one in OUTPUT. Nothing of the old set is
// touched before, and whenever this is interrupted, publish_whole_set() completes it: the old
// manifest goes first, then its shards, the new files come, the new manifest last. Throws kIo.
void publish_set(const std::string& output, const Manifest& manifest);

// Does that when an interrupted run has left a whole set in the journal; every file is compared
// with its hash. Returns whether it did.
bool publish_whole_set(const std::string& output);

// Removes what a run that was killed after publishing its set left of the journal. One with
// finished shards or parts is another's, or an interrupted --overwrite, and stays. Errors do not
// matter.
void remove_leftovers(const std::string& output);

}  // namespace retina
