// Names images in messages by their COCO ids.
#pragma once

#include <string>
#include <vector>

#include "shared/data/batch.h"
#include "shared/shard/image_index.h"
#include "train/plan/epoch_plan.h"

namespace retina {

// All ranks' images of a step, separated by commas; `index` is that of the training set.
std::string image_names(const GlobalStep& step, const std::vector<IndexEntry>& index);

// Those of a batch that count.
std::string image_names(const Batch& batch);

// Warns of the batch's first box that is not trained on, with its image; false when all are.
bool warn_of_left_out(const Batch& batch);

}  // namespace retina
