// Copies of a set's shards and, of a set behind a URL, its index on a local disk, in
// SCRATCH/retina-shards-HASH; HASH is that of the shards' own hashes. All processes of a node that
// read the set share them, and the next start finds what a killed job left. Every process compares
// the hash of a copy before it reads from it, so that nothing but time depends on who made it. The
// last process to end normally removes the folder; what killed jobs left of other sets is removed
// when a folder is opened beside it.
//
// A shard is written under NAME.tmp, which its writer keeps locked (flock: a killed writer's lock
// is gone, and the next one starts over, or from a URL goes on), and then renamed. The folder's
// `.lock` is locked shared by all who use it. Where the scratch disk has no locks, or the folder is
// another user's, a process has a folder of its own.
#pragma once

#include <sys/stat.h>

#include <array>
#include <condition_variable>
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

// The scratch disk failed (full, gone, not writable), not the data set's mount: trying again does
// not help.
class ScratchError : public Error {
 public:
  using Error::Error;
};

// A copy that is wanted before its first use.
struct CopyAhead {
  std::uint64_t limit_bytes = 0;  // of copied_bytes()
  std::stop_token stop = {};
};

enum class CopyState {
  kReady,
  kDamaged,      // the source does not match its checksum, and a copy of it neither
  kBusy,         // ahead: another process or thread is copying it
  kBeyondLimit,  // ahead: the limit has no room for it
};

struct ShardCopy {
  CopyState state = CopyState::kReady;
  // kReady, kDamaged: its content, whatever becomes of the copy's name.
  MappedFile file = {};
  std::uint64_t xxh3 = 0;
};

class ShardCopies {
 public:
  // As read_pieces().
  using ReadSource =
      std::function<void(const std::string& path, const std::function<void(std::string_view)>&)>;

  // Touches nothing before the first copy. `scratch` empty: $TMPDIR.
  ShardCopies(std::string source_folder, const std::vector<ManifestShard>& shards,
              std::string scratch, ReadSource read_source = read_pieces);
  // The same of a folder behind a URL, which outlives the copies. Where an error or a signal
  // ends their last user, they stay for the next start, as those of a killed one.
  ShardCopies(const RemoteFolder& source, const std::vector<ManifestShard>& shards,
              std::string scratch);
  ~ShardCopies();
  ShardCopies(const ShardCopies&) = delete;
  ShardCopies& operator=(const ShardCopies&) = delete;

  // The copy of a shard to read from now, made if there is none; waits while another process makes
  // it. What goes wrong at the source, a wrong hash too, is tried again a few times, after pauses
  // that grow to 2 s; a URL has retries of its own. Throws kIo and kNoInput (the source cannot be
  // read, or from a URL has another wrong hash each time), kData at once (its size has changed),
  // kInterrupted (signals.h), ScratchError. Thread-safe.
  ShardCopy copy(const ManifestShard& shard) { return copy(shard, nullptr); }
  // The same ahead of its use.
  ShardCopy copy(const ManifestShard& shard, const CopyAhead& ahead) { return copy(shard, &ahead); }

  bool is_there(const ManifestShard& shard) const { return path_exists(path_of(shard)); }
  // Whether a killed job has left its copy, to this process alone.
  bool is_left(const ManifestShard& shard) const;
  // Removes its copy. Who has it mapped keeps the content, and the disk its room until then.
  void remove(const ManifestShard& shard);

  // Where the copies are made, its folders for them aside.
  const std::string& scratch() const { return scratch_; }

  // Of the copies of this process's sets, which its ranks on this node share: bytes, those being
  // made with their full size; and what they take of the disk now.
  struct Bytes {
    std::uint64_t full = 0, on_disk = 0;
  };
  static Bytes copied_bytes();

 private:
  class Claim;
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
  const RemoteFolder* remote_ = nullptr;  // instead
  mutable std::mutex mutex_;
  std::set<std::string> claimed_;  // shards that a thread of this process is copying
  std::condition_variable unclaimed_;
  // The files whose hash this process has compared, by name: a reader that finds what its stager
  // made need not do it again.
  using FileState = std::array<std::int64_t, 4>;  // device, inode, time of the last write
  static FileState state_of(const struct stat& status);
  mutable std::map<std::string, FileState> compared_;
  std::string folder_{};        // empty: not opened yet
  std::set<std::string> left_;  // in it when nobody else was
  Descriptor lock_;             // on the folder
};

}  // namespace retina
