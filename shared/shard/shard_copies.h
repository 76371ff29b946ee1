// Copies of a set's shards and, for a set behind a URL, its index on a local disk, in
// SCRATCH/retina-shards-HASH; HASH is that of the shards' own hashes. All processes of a node that
// read the set share them, and the next start reuses the copies of a killed job. Every process
// compares the hash of a copy before it reads from it, so that it does not matter who made it,
// except for time. The last process to end normally removes the folder; leftovers of killed jobs
// for other sets are removed when a folder is opened beside them.
//
// A shard is written under NAME.tmp, which its writer keeps locked (flock: a killed writer's lock
// is gone, and the next one starts over), and then renamed. The folder's
// `.lock` is locked shared by all of its users. If the scratch disk has no locks, or the folder is
// another user's, a process has a folder of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/descriptor.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/remote/remote_folder.h"
#include "shared/shard/manifest.h"
#include "shared/shard/mapped_file.h"

namespace retina {

// Error of the scratch disk (full, gone, not writable), not of the data set's mount: trying again
// does not help.
class ScratchError : public Error {
 public:
  using Error::Error;
};

// Options for a copy that is made before its first use.
struct CopyAhead {
  std::uint64_t limit_bytes = 0;  // limit of copied_bytes()
  std::stop_token stop = {};
};

enum class CopyState {
  kReady,
  kDamaged,      // the source does not match its checksum, nor does a copy
  kBusy,         // ahead: another process or thread is copying it
  kBeyondLimit,  // ahead: the limit has no room for it
};

struct ShardCopy {
  CopyState state = CopyState::kReady;
  // kReady, kDamaged: its content, even if the copy's name is gone.
  MappedFile file = {};
  std::uint64_t xxh3 = 0;
};

class ShardCopies {
 public:
  // A function with the contract of read_pieces().
  using ReadSource =
      std::function<void(const std::string& path, const std::function<void(std::string_view)>&)>;

  // Does nothing on the disk before the first copy. `scratch` empty: $TMPDIR.
  ShardCopies(std::string source_folder, const std::vector<ManifestShard>& shards,
              std::string scratch, ReadSource read_source = read_pieces);
  // Copies from a folder behind a URL, which outlives the copies. If an error or a signal ends
  // their last user, they stay for the next start, like those of a killed one.
  ShardCopies(const RemoteFolder& source, const std::vector<ManifestShard>& shards,
              std::string scratch);
  ~ShardCopies();
  ShardCopies(const ShardCopies&) = delete;
  ShardCopies& operator=(const ShardCopies&) = delete;

  // Returns the copy of a shard to read from now, made if there is none; waits while another
  // process makes it. Errors of the source, a wrong hash too, are retried a few times, after pauses
  // that grow to 2 s; a URL has retries of its own. Throws kIo and kNoInput (the source cannot be
  // read, or from a URL has another wrong hash each time), kData at once (its size has changed),
  // kInterrupted (signals.h), ScratchError. Thread-safe.
  ShardCopy copy(const ManifestShard& shard) { return copy(shard, nullptr); }
  // Returns a copy ahead of its use.
  ShardCopy copy(const ManifestShard& shard, const CopyAhead& ahead) { return copy(shard, &ahead); }

  bool is_there(const ManifestShard& shard) const { return path_exists(path_of(shard)); }
  // Returns true if a killed job has left its copy, for this process alone.
  bool is_left(const ManifestShard& shard) const;
  // Removes its copy. Existing mappings stay valid; the space is freed when the last one goes.
  void remove(const ManifestShard& shard);

  // Returns the folder in which the folders of copies are made.
  const std::string& scratch() const { return scratch_; }

  // Sizes of the copies of this process's sets, which its ranks on this node share: bytes, counting
  // unfinished ones with their full size; and the space they take on the disk now.
  struct Bytes {
    std::uint64_t full = 0, on_disk = 0;
  };
  static Bytes copied_bytes();

 private:
  ShardCopy copy(const ManifestShard& shard, const CopyAhead* ahead);
  ShardCopy try_copy(const ManifestShard& shard, const CopyAhead* ahead);
  ShardCopy write_copy(const ManifestShard& shard, int temporary, const CopyAhead* ahead) const;
  std::optional<MappedFile> find(const ManifestShard& shard) const;
  std::string path_of(const ManifestShard& shard) const { return folder_ + "/" + shard.file.name; }
  void open_folder();
  bool join(const std::string& folder);
  void fill(const ManifestShard& shard, int temporary, const CopyAhead* ahead) const;

  std::string source_folder_, scratch_, id_;
  ReadSource read_source_{};
  const RemoteFolder* remote_ = nullptr;  // in place of the folder
  mutable std::mutex mutex_;
  std::map<std::string, std::mutex> copying_;  // by shard: held by the thread that copies it
  std::string folder_{};                       // empty: not opened yet
  std::set<std::string> left_;                 // in the folder when no other process used it
  Descriptor lock_;                            // on the folder
};

}  // namespace retina
