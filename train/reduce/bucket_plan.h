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
  // Hash over names, counts and places: ranks compare it before the first step.
  std::uint64_t layout_hash = 0;
};

struct BucketParameter {
  std::string name = {};
  std::size_t count = 0;  // elements
};

// A parameter is never split: one larger than `bucket_count` elements gets a bucket of its own.
BucketPlan plan_buckets(const std::vector<BucketParameter>& parameters, std::size_t bucket_count);

}  // namespace retina
