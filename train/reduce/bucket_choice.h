// How large the buckets of a job are: as the user says, as the run began, or the default. The same
// on all ranks.
#pragma once

#include <cstddef>
#include <string>

#include "shared/comm/communicator.h"
#include "train/reduce/bucket_plan.h"
#include "train/reduce/wire.h"

namespace retina {

struct BucketOptions {
  std::size_t bucket_bytes = 0;  // on the wire; 0: as the run began, or kDefaultBucketBytes
  WireOptions wire = {};
  // Buckets travel while backward computes the others; false: after it. The sums are the same bits.
  bool overlap = true;
  // Used on rank 0: `to_json` of the run that continues. With 3 ranks or more the bits of a ring's
  // sum depend on the buckets, so they are taken as they were.
  std::string stored = {};
};

// About 3 % behind the best of 1, 4, 8 and 25 MiB on loopback and over 400 Mbit/s; 25 MiB, the
// default of PyTorch's DistributedDataParallel, is 8 % behind.
inline constexpr std::size_t kDefaultBucketBytes = std::size_t{8} << 20;
inline constexpr std::size_t kEdgePart = 32;  // the edge's share of a bucket

// In bytes on the wire. `stored` counts where ranks and wire are the same. Collective.
BucketSize choose_buckets(const BucketOptions& options, Communicator& communicator);

// For the run's folder: read again as BucketOptions::stored. `ranks` had their sums by these.
std::string to_json(const BucketSize& bytes, const BucketPlan& plan, const WireOptions& wire,
                    int ranks);

// "gradients: 21.1 M values in 24 buckets of 0.04 to 9.4 MB (bf16)".
std::string describe(const BucketPlan& plan, const WireOptions& wire);

}  // namespace retina
