// Ground truth for scoring, read back from shards: the records keep COCO's annotations exactly.
#pragma once

#include "shared/coco/instances.h"
#include "shared/shard/shard_set.h"

namespace retina {

// All images, annotations and categories of `shards`, images in ascending id order and each image's
// annotations in their order in the record. Throws kData when a record is damaged.
Instances ground_truth_of(const ShardSet& shards);

}  // namespace retina
