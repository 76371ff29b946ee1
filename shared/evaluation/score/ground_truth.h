// Ground truth for scoring, read back from shards: the records keep COCO's annotations exactly.
#pragma once

#include <cstdint>
#include <functional>

#include "shared/coco/instances.h"
#include "shared/shard/shard_set.h"

namespace retina {

// All images, annotations and categories of `shards`, images in ascending id order, each image's
// annotations in their order in the record. Of tiles the whole images with their own boxes.
// `on_record` is called for each record. Throws kData when one is damaged, kConfig
// when the set is not one of detection.
Instances ground_truth_of(const ShardSet& shards, const std::function<void()>& on_record = {});

// Whether both score alike: the images with their sizes, the boxes with their classes, areas and
// crowd flags, and the classes, in any order. Names of files and ids of annotations do not count.
bool is_same_truth(const Instances& a, const Instances& b);

// Drops all images but the `count` of lowest id, with their annotations; none where `count` is 0.
void keep_first_images(Instances& truth, std::int64_t count);

}  // namespace retina
