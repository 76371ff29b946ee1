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
  // offset in them (list_records): hashes reveal damage, not who made the file. If the mount cannot
  // map files, maps the copy among `copies`; with damaged records, if need be. Throws kNoInput,
  // kData, kIo, kUnavailable (memory).
  ShardFile(const std::string& folder, const ManifestShard& shard, ShardCopies& copies);
  // Does the same, with a copy of its own in `scratch` (empty: $TMPDIR).
  ShardFile(const std::string& folder, const ManifestShard& shard, const std::string& scratch = "");
  // Opens a complete copy of the shard; `path` is its name in messages.
  ShardFile(const std::string& path, const ManifestShard& shard, MappedFile copy);

  std::size_t size() const;

  // Returns the bytes of the record with key `place`, unchecked (see decode_record); they stay
  // valid while this object lives. Thread-safe.
  std::string_view bytes(std::size_t place) const;

  // Returns the whole file.
  std::string_view content() const { return file_.content(); }

  // Releases the pages read so far, for one sequential read of a whole shard: they no longer count
  // as this process's memory, and are loaded again when they are read again. Thread-safe.
  void forget_pages() const;

 private:
  void list_all(const std::string& path, const ManifestShard& shard);

  MappedFile file_;
  std::vector<std::string_view> records_;
};

// Throws kNoInput if `folder`/`file.name` is missing, kData if its size differs.
void check_file_size(const std::string& folder, const ManifestFile& file);

}  // namespace retina
