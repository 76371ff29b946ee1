// The names of a step's images in messages.
#pragma once

#include <string>
#include <vector>

#include "shared/data/batch.h"
#include "shared/shard/image_index.h"
#include "train/plan/epoch_plan.h"

namespace retina {

// Returns the name of a sample's image for people, see shared/base/printable.h; for a tile with its
// place.
std::string image_name(const Sample& sample);

// Returns the images of a step on all ranks, separated by commas; `index` is that of the training
// set.
std::string image_names(const GlobalStep& step, const ImageIndex& index);

// Returns the images of a batch that count.
std::string image_names(const Batch& batch);

}  // namespace retina
