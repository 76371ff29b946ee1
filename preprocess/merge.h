// `--merge`: the parts of a set (--part), each packed by a process of its own, become one: the same
// bytes as without parts.
//
// A part begins and ends inside a shard. Those around the seams of parts are made again, of the
// parts' records; wherever one of them ends with a shard of the part, all that follow in this part
// are taken as they are, by renaming them. That is at once where the part knew how full its first
// shard is (part_start.h), else some shards later, or never: then all are made again. The images
// are not needed; every record is read once, to count it and to compare its hash.
#pragma once

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
// or finds that there is nothing to do; `reused_shards` are those taken as they are. Throws
// kNoInput (no parts, or not all: names them), kConfig (parts of different input, a set is there,
// another process works in a part), kData (a damaged part, one that is there twice, no usable
// image), kIo, kInterrupted.
PackResult merge_parts(const MergeOptions& options);

// Whether a merge was interrupted when its set was whole, but not published.
bool is_merge_interrupted(const std::string& output);

// Throws kConfig when a part (`options.part` or `parts`) does not belong to those that its output
// has already: other numbers of parts, another input than `wanted`, an interrupted packing without
// parts or an interrupted merge.
void check_fits_other_parts(const PackOptions& options, const Manifest& wanted);

}  // namespace retina
