// The packing itself: from the plan to a published shard set.
#pragma once

#include <cstdint>

#include "preprocess/options.h"
#include "preprocess/pack_plan.h"
#include "preprocess/packer.h"

namespace retina {

// Packs the plan's images into options.output, which is locked and ours, or continues what an
// interrupted run with the same input left there; `begun` has what check_same_input() compares. Of
// the first shard, `used_bytes` are left to the records of the part before (part_start.h). Throws
// as pack() does.
PackResult build_set(const PackOptions& options, const Manifest& begun, const PackPlan& plan,
                     std::uint64_t used_bytes = 0);

// Throws kData for an image that --on-bad-image fail does not tolerate.
[[noreturn]] void fail_on_bad_image(const QuarantinedImage& bad);

}  // namespace retina
