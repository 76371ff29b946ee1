// How gradients are laid out in flat buckets: parameters in reverse order (backward fills them from
// the last layer to the first), each bucket up to a size. Knows no LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "train/reduce/link_model.h"

namespace retina {

// One parameter's place: `count` elements from `offset` of bucket `bucket`.
struct BucketSlot {
  std::size_t bucket = 0, offset = 0, count = 0;
};

struct BucketPlan {
  std::vector<BucketSlot> slots = {};           // one a parameter, in the order of the parameters
  std::vector<std::size_t> bucket_counts = {};  // elements of each bucket
  // Hash over names, shapes, counts and places: ranks compare it before the first step.
  std::uint64_t layout_hash = 0;
};

struct BucketParameter {
  std::string name = {};
  std::size_t count = 0;    // elements
  std::string layout = {};  // shape, strides and type as text: for comparing ranks
};

// In elements or bytes.
struct BucketSize {
  std::size_t most = 0;  // of a bucket
  // The first bucket ends once it has this much, so that the link gets to work early; the last is
  // the fewest parameters that have this much, since nothing hides it; none has less, even if the
  // next parameter makes it larger than `most`. 0: the first and the last are like the others.
  std::size_t edge = 0;
};

// A parameter is never split: one larger than `size.most` elements makes a larger bucket.
BucketPlan plan_buckets(const std::vector<BucketParameter>& parameters, const BucketSize& size);

// In bytes, for a gradient of G = `total_bytes` over links as fitted: n ranks, latency α, bandwidth
// β. An all-reduce of b bytes takes a + b/c with a = 2(n-1)·α, c = β·n/(2(n-1)). Small buckets cost
// G/b times a; large ones leave b/c to wait for after backward, when the last has filled. The sum
//   G/b · a + b/c   is least at   b = sqrt(a·c·G),
// and an edge of a·c travels as long as it costs to send at all. `most` is at least 256 KiB, below
// which threads and wake-ups cost more than the link, and at most G.
BucketSize best_bucket_bytes(const RingFit& fit, double total_bytes);

}  // namespace retina
