// Names images in messages: their COCO ids, separated by commas.
#pragma once

#include <string>
#include <vector>

#include "shared/data/batch.h"
#include "shared/shard/image_index.h"
#include "train/plan/epoch_plan.h"

namespace retina {

// All ranks' images of a step; `index` is that of the training set.
std::string image_names(const GlobalStep& step, const std::vector<IndexEntry>& index);

// Those of a batch that count.
std::string image_names(const Batch& batch);

}  // namespace retina
