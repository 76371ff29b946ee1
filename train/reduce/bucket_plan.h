// How gradients are laid out in flat buckets: parameters in reverse order (backward fills them from
// the last layer to the first), each bucket up to a size. Knows no LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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

}  // namespace retina
