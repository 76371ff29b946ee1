// One shard, a single-file LMDB, open for reading.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "shared/shard/manifest.h"
#include "shared/shard/mapped_file.h"
#include "shared/shard/shard_copies.h"

namespace retina {

class ShardFile {
 public:
  // Maps FOLDER/shard.file.name. Checks the size, the hash of LMDB's own pages, and then every
  // offset in them (list_records): hashes reveal damage, not who made the file. Where the mount
  // cannot map files, the copy among `copies` is mapped; with damaged records, if need be. Throws
  // kNoInput, kData, kIo, kUnavailable (memory).
  ShardFile(const std::string& folder, const ManifestShard& shard, ShardCopies& copies);
  // The same, with a copy of its own in `scratch` (empty: $TMPDIR).
  ShardFile(const std::string& folder, const ManifestShard& shard, const std::string& scratch = "");
  // The shard as a whole copy of it has it; `path` is its name in messages.
  ShardFile(const std::string& path, const ManifestShard& shard, MappedFile copy);

  std::size_t size() const;

  // The bytes of the record with key `place`, unchecked (see decode_record); they stay valid while
  // this object lives. Thread-safe.
  std::string_view bytes(std::size_t place) const;

  // The whole file.
  std::string_view content() const { return file_.content(); }

  // For who reads a whole shard once: the pages read so far no longer count as this process's
  // memory; they come back when they are read again. Thread-safe.
  void forget_pages() const;

 private:
  void list_all(const std::string& path, const ManifestShard& shard);

  MappedFile file_;
  std::vector<std::string_view> records_;
};

// Throws kNoInput when `folder`/`file.name` is missing, kData when its size differs.
void check_file_size(const std::string& folder, const ManifestFile& file);

}  // namespace retina
