// One shard, a single-file LMDB, open for reading.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "shared/shard/manifest.h"

namespace retina {

class ShardFile {
 public:
  // Maps FOLDER/shard.file.name. Checks the size, the hash of LMDB's own pages, and then every
  // offset in them (list_records): hashes reveal damage, not who made the file. Where the mount
  // cannot map files, a copy in `scratch` (empty: $TMPDIR) is mapped. Throws kNoInput, kData, kIo,
  // kUnavailable (memory).
  ShardFile(const std::string& folder, const ManifestShard& shard, const std::string& scratch = "");
  ~ShardFile();
  ShardFile(const ShardFile&) = delete;
  ShardFile& operator=(const ShardFile&) = delete;

  std::size_t size() const;

  // The bytes of the record with key `place`, unchecked (see decode_record); they stay valid while
  // this object lives. Thread-safe.
  std::string_view bytes(std::size_t place) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Throws kNoInput when `folder`/`file.name` is missing, kData when its size differs.
void check_file_size(const std::string& folder, const ManifestFile& file);

}  // namespace retina
