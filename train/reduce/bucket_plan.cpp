#include "train/reduce/bucket_plan.h"

#include "shared/base/hash.h"

namespace retina {
namespace {

std::uint64_t layout_hash(const std::vector<BucketParameter>& parameters, const BucketPlan& plan) {
  Hasher hasher;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const BucketSlot& slot = plan.slots[i];
    for (const std::string& text : {parameters[i].name, parameters[i].layout}) {
      const std::uint64_t length = text.size();
      hasher.update(&length, sizeof length);
      hasher.update(text.data(), text.size());
    }
    const std::uint64_t numbers[] = {slot.bucket, slot.offset, slot.count};
    hasher.update(numbers, sizeof numbers);
  }
  return hasher.digest();
}

// How many of the first parameters make up the last bucket.
std::size_t last_bucket_parameters(const std::vector<BucketParameter>& parameters,
                                   std::size_t edge) {
  std::size_t count = 0, i = 0;
  while (i < parameters.size() && count < edge) count += parameters[i++].count;
  return i;
}

}  // namespace

BucketPlan plan_buckets(const std::vector<BucketParameter>& parameters, const BucketSize& size) {
  BucketPlan plan;
  plan.slots.resize(parameters.size());
  std::vector<std::size_t>& counts = plan.bucket_counts;
  const std::size_t last = last_bucket_parameters(parameters, size.edge);
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const std::size_t count = parameters[i].count;
    if (counts.empty()) {
      counts.push_back(0);
    } else if (counts.back() >= size.edge) {
      const bool first_is_full = size.edge > 0 && counts.size() == 1;
      const bool overflows = counts.back() + count > size.most;
      if (first_is_full || overflows || i + 1 == last) counts.push_back(0);
    }
    plan.slots[i] = {.bucket = counts.size() - 1, .offset = counts.back(), .count = count};
    counts.back() += count;
  }
  plan.layout_hash = layout_hash(parameters, plan);
  return plan;
}

}  // namespace retina
