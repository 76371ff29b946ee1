// `--merge`: the parts of a set (--part), each a set of its own, become one, of their shards as
// they are. The images are not needed; every record is read once, to count it and to compare
// hashes.
#pragma once

#include <cstddef>
#include <string>

#include "preprocess/packer.h"

namespace retina {

struct MergeOptions {
  std::string output{};
  std::string scratch{};   // as PackOptions::scratch
  bool overwrite = false;  // replace the set that the output folder holds
  int thread_count = 1;
};

// Merges the parts in `output` and publishes the set, or completes what an interrupted merge left,
// or finds that there is nothing to do. Throws kNoInput (no parts, or not all: names them), kConfig
// (parts of different input, a set is there, another process works in a part), kData (a damaged
// part, no usable image), kIo, kInterrupted.
PackResult merge_parts(const MergeOptions& options);

// Throws kConfig when `output` has a part of another number of parts.
void check_part_count(const std::string& output, std::size_t count);

}  // namespace retina
