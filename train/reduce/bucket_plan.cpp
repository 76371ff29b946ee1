#include "train/reduce/bucket_plan.h"

#include "shared/base/hash.h"

namespace retina {

BucketPlan plan_buckets(const std::vector<BucketParameter>& parameters, std::size_t bucket_count) {
  BucketPlan plan;
  plan.slots.resize(parameters.size());
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const std::size_t count = parameters[i].count;
    if (plan.bucket_counts.empty() || plan.bucket_counts.back() + count > bucket_count) {
      plan.bucket_counts.push_back(0);
    }
    plan.slots[i] = {.bucket = plan.bucket_counts.size() - 1,
                     .offset = plan.bucket_counts.back(),
                     .count = count};
    plan.bucket_counts.back() += count;
  }
  Hasher hasher;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const BucketSlot& slot = plan.slots[i];
    const std::uint64_t numbers[] = {parameters[i].name.size(), slot.bucket, slot.offset,
                                     slot.count};
    hasher.update(numbers, sizeof numbers);
    hasher.update(parameters[i].name.data(), parameters[i].name.size());
  }
  plan.layout_hash = hasher.digest();
  return plan;
}

}  // namespace retina
