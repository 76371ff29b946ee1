// Lays gradients out in flat buckets: parameters in reverse order (backward fills them from the
// last layer to the first), each bucket up to a size that the user gives, that the run began with,
// or the default; the same on all ranks. No LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shared/comm/communicator.h"
#include "train/reduce/wire.h"

namespace retina {

// The place of a parameter: `count` elements from `offset` of bucket `bucket`.
struct BucketSlot {
  std::size_t bucket = 0, offset = 0, count = 0;
};

struct BucketPlan {
  std::vector<BucketSlot> slots = {};           // one a parameter, in the order of the parameters
  std::vector<std::size_t> bucket_counts = {};  // elements of each bucket
  // Hash of names, shapes, counts and places: ranks compare it before the first step.
  std::uint64_t layout_hash = 0;
};

struct BucketParameter {
  std::string name = {};
  std::size_t count = 0;    // elements
  std::string layout = {};  // shape, strides and type as text, to compare ranks
};

// Sizes in elements or bytes.
struct BucketSize {
  std::size_t most = 0;  // largest size of a bucket
  // The first bucket ends once it has this much, so that the link gets to work early; the last is
  // made of the fewest parameters that have this much, since nothing hides it. No bucket has less,
  // even if the next parameter makes it larger than `most`. 0: the first and the last are like the
  // others.
  std::size_t edge = 0;
};

// Returns the layout. A parameter is never split: one larger than `size.most` elements makes a
// larger bucket.
BucketPlan plan_buckets(const std::vector<BucketParameter>& parameters, const BucketSize& size);

// Throws Error{kConfig} on rank 0 when a rank's parameters or plan differ from rank 0's, which
// would add one parameter to another: names the rank and the first parameter that differs. The
// other ranks wait for the job's end. Collective.
void check_same_layout(const std::vector<BucketParameter>& parameters, const BucketPlan& plan,
                       Communicator& communicator);

struct BucketOptions {
  std::size_t bucket_bytes = 0;  // on the wire; 0: as the run began, or kDefaultBucketBytes
  WireOptions wire = {};
  // True: buckets travel while backward computes the others; false: after it. The sums are the same
  // bits.
  bool overlap = true;
  // Stored `to_json` of the run that continues; used on rank 0. With 3 ranks or more the bits of a
  // ring's sum depend on the buckets, so a run keeps its own.
  std::string stored = {};
};

// About 3 % behind the best of 1, 4, 8 and 25 MiB on loopback and over 400 Mbit/s; 25 MiB, the
// default of PyTorch's DistributedDataParallel, is 8 % behind.
inline constexpr std::size_t kDefaultBucketBytes = std::size_t{8} << 20;
inline constexpr std::size_t kEdgePart = 32;  // the edge's share of a bucket

// Returns the sizes in bytes on the wire. `stored` is used if ranks and wire are the same.
// Collective.
BucketSize choose_buckets(const BucketOptions& options, Communicator& communicator);

// Returns the text for the run's folder, which a later start passes as BucketOptions::stored.
// `ranks` is the number of ranks that summed with these sizes.
std::string to_json(const BucketSize& bytes, const BucketPlan& plan, const WireOptions& wire,
                    int ranks);

// Returns "gradients: 21.1 M values in 24 buckets of 0.04 to 9.4 MB (bf16)".
std::string describe(const BucketPlan& plan, const WireOptions& wire);

}  // namespace retina
