// Ground truth for scoring, read back from shards: the records keep COCO's annotations exactly.
#pragma once

#include <cstdint>
#include <functional>

#include "shared/coco/instances.h"
#include "shared/shard/shard_set.h"

namespace retina {

// Returns all images, annotations and categories of `shards`, images in ascending id order, each
// image's annotations in their order in the record. From tiles it restores the whole images with
// their own boxes. `on_record` is called for each record. Throws kData if one is damaged, kConfig
// if the set is not for detection.
Instances ground_truth_of(const ShardSet& shards, const std::function<void()>& on_record = {});

// Drops all images but the `count` with the lowest ids, with their annotations; none if `count` is
// 0.
void keep_first_images(Instances& truth, std::int64_t count);

}  // namespace retina
