// The folder that a set goes into: whose files are there, who works in it, and how a finished set
// takes the place of the one before.
//
// Its journal, OUTPUT/.packing, has what is not published yet: each finished shard of a packing as
// a set of its own, each part (--part) likewise, and at the very end index and manifest of the
// whole new set. A set that --overwrite replaces stays beside it until then.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "preprocess/options.h"
#include "shared/base/file.h"
#include "shared/base/output.h"
#include "shared/shard/manifest.h"

namespace retina {

std::string journal_folder(const std::string& output);
// The folder in it of finished shard number `shard`, and the shard there.
std::string finished_folder(const std::string& output, std::size_t shard);
std::string finished_shard_path(const std::string& output, std::size_t shard);
// The folder in it of a part, and the parts that have one, in no order.
std::string part_folder(const std::string& output, const PackPart& part);
std::vector<PackPart> begun_parts(const std::string& output);

// Makes the folder of the next finished shard. Throws kCannotCreate, also where the journal is
// gone.
void make_finished_folder(const std::string& output, std::size_t shard);

// Returns true if the journal has a finished shard, a part or a set to publish.
bool holds_work(const std::string& output);

// Removes all of the journal but the parts and the first `shard_count` finished shards. Errors do
// not matter here and below.
void keep_finished(const std::string& output, std::size_t shard_count);
void remove_journal(const std::string& output);

// Removes the parts' folders. Throws kIo.
void remove_parts(const std::string& output);

// Throws kIo when the journal is gone, and with it the output folder or its mount.
void check_journal_present(const std::string& output);

inline constexpr const char* kOtherInputHint =
    "choose another --output, or replace the data set with --overwrite";
// Lists in what the input of two sets differs, annotations or options: "quality (was 90, now 80)";
// empty: in nothing.
std::string input_differences(const Manifest& there, const Manifest& wanted);
// Throws kConfig with that list, unless it is empty; `folder` begins the message.
void check_same_input(const std::string& folder, const Manifest& there, const Manifest& wanted);

// Throws kConfig when the folder holds files with the names of a set's (manifest.json, index.bin,
// quarantine.jsonl, shards) that coco-pack did not write, or its journal a file of another name.
// One of ours, whole or damaged, has our manifest, our index or a journal.
void check_is_ours(const std::string& output);

// Returns true if the folder (of ours) holds a set, even a damaged one or without manifest, unless
// a run was interrupted while it published a new one.
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

// Puts the set that the journal holds whole (its manifest lies there, written last; its shards are
// those finished there, or of the parts) in the place of the one in OUTPUT. Nothing of the old set
// is touched before, and whenever this is interrupted, publish_whole_set() completes it: the old
// manifest goes first, then its shards, the new files come, the new manifest last. Throws kIo.
void publish_set(const std::string& output, const Manifest& manifest);

// Returns true if the journal has the manifest of a whole set.
bool is_unpublished(const std::string& output);

// Does that when an interrupted run has left a whole set in the journal; every file is compared
// with its hash. Returns whether it did.
bool publish_whole_set(const std::string& output);

// Removes what a run that was killed after publishing its set left of the journal. One with
// work is another's, or an interrupted --overwrite, and stays.
void remove_leftovers(const std::string& output);

}  // namespace retina
