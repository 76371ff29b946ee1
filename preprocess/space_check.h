// Is there room for the set? Better asked before an hour of packing than after.
#pragma once

#include "preprocess/options.h"
#include "preprocess/pack_plan.h"

namespace retina {

// Estimates the set's size from the files of a few images (a mount with 100,000 images is slow to
// ask) and throws kIo when clearly less is free in the output or, for one shard, in `scratch`
// (empty: none). Silent when nothing is known.
void check_free_space(const PackOptions& options, const PackPlan& plan, const std::string& scratch);

}  // namespace retina
