// A packed data set, open for reading: manifest, index and shards. The one door to the data for
// training, evaluation and --inspect.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shared/shard/image_index.h"
#include "shared/shard/manifest.h"
#include "shared/shard/record.h"

namespace retina {

class ShardSet {
 public:
  // Reads manifest and index and checks every file's size: a truncated LMDB file would end the
  // process by SIGBUS later. Throws kNoInput (folder, manifest or a shard is missing), kData
  // (damaged, cut, or written by a newer version).
  explicit ShardSet(const std::string& folder);
  ~ShardSet();
  ShardSet(ShardSet&&) noexcept;
  ShardSet& operator=(ShardSet&&) noexcept;

  const std::string& folder() const;
  const Manifest& manifest() const;
  const std::vector<IndexEntry>& index() const;

  // The record of index()[index_place]. Opens its shard at the first use. Thread-safe; the
  // record's `jpeg` is valid while the ShardSet lives. Throws kData naming shard and record when a
  // hash is off or the index disagrees, kUnavailable where the mount cannot map files.
  Record read(std::size_t index_place) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace retina
