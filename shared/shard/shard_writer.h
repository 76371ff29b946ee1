// Writes one shard. The bytes depend on the records and the size limit alone: keys ascend, and the
// transactions are cut by bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "shared/base/hash.h"
#include "shared/shard/manifest.h"

namespace retina {

class ShardWriter {
 public:
  // Creates the shard; `path` appears with finish(). It is written as `build_path`.tmp on a local
  // disk, or as `path`.tmp if that is empty. Throws kCannotCreate, kUnavailable (this disk cannot
  // map files).
  ShardWriter(std::string path, std::uint64_t shard_size_bytes, std::string build_path = "");
  ~ShardWriter();  // an unfinished shard is removed
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  // Returns true if a record of this size still fits; an empty shard takes a record of any size.
  bool has_space(std::size_t record_bytes) const;

  // Appends a record and returns its key, 0, 1, ...; finish() compares the written record with
  // `hash`, its XXH3. Throws kIo (disk full).
  std::uint32_t append(std::string_view record_bytes, std::uint64_t hash);
  std::uint32_t append(std::string_view record_bytes) {
    return append(record_bytes, xxh3(record_bytes));
  }

  // Publishes the shard: sync, re-open, compare every record's hash, rename; a shard that was built
  // elsewhere is delivered (file.h). The returned file name is empty: the caller names it. Throws
  // kIo.
  ManifestShard finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace retina
