// The part of LMDB 0.9's page format that this project reads: the hash of the pages, which the
// manifest holds, and a reader that trusts nothing in them. LMDB itself follows the offsets in its
// pages unchecked: in a forged file (hashes can be forged, too) or one that changes meanwhile, that
// is a crash.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace retina {

// Returns xxh3 over, in file order: every page that is not an overflow page, whole, and the 16-byte
// header of every run of overflow pages (they hold the records, which have their own hashes). Reads
// the file with pread and stays inside it whatever it contains. Throws kNoInput, kIo, kData (not an
// LMDB file).
std::uint64_t shard_tree_xxh3(const std::string& path);

// Returns the records of a shard in the order of their keys 0, 1, ...; `file` is its whole content.
// Every view lies inside `file`, whatever that contains; only the pages of the tree are touched.
// Throws kData naming `path` and the page: not an LMDB file, an offset that leads out of its page
// or the file, a page that is used twice, a key that is not the next number.
std::vector<std::string_view> list_records(std::string_view file, const std::string& path);

}  // namespace retina
