// Are today's images those that were packed? They belong to a set's identity by their content, not
// by the path of their folder.
#pragma once

#include <cstddef>
#include <string>

#include "preprocess/pack_plan.h"
#include "shared/shard/shard_set.h"

namespace retina {

// So many packed images of a finished set are compared. The plan is shuffled: the first ones are a
// fair sample, and all of them lie in few shards.
inline constexpr std::size_t kSampledImages = 32;

// Says how they differ from a finished set's; empty: not at all. All images that were quarantined
// are tried again; of the packed ones a sample is compared whose files are still there (a finished
// set does not need them).
std::string changed_images(const ManifestOptions& options, const ImageSource& source,
                           const PackPlan& plan, const ShardSet& set);

}  // namespace retina
