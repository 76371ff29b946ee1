// LMDB follows offsets in its own pages without checking them: a flipped bit there is a crash. So
// the manifest holds a hash of exactly these pages, and a reader compares it first.
#pragma once

#include <cstdint>
#include <string>

namespace retina {

// xxh3 over, in file order: every page that is no overflow page, whole, and the 16-byte header of
// every run of overflow pages (they hold the records, which have their own hashes). Reads the file
// with pread and stays inside it whatever it contains. Throws kNoInput, kIo, kData (no LMDB file).
std::uint64_t shard_tree_xxh3(const std::string& path);

}  // namespace retina
