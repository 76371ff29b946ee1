// The packing itself: from the plan to a published shard set.
#pragma once

#include "preprocess/options.h"
#include "preprocess/pack_plan.h"
#include "preprocess/packer.h"
#include "shared/shard/quarantine.h"

namespace retina {

// Packs the plan's images into options.output, which is locked and ours, or continues what an
// interrupted run with the same input left there; `begun` is what is known of the manifest. Throws
// as pack() does.
PackResult build_set(const PackOptions& options, const Manifest& begun, const PackPlan& plan);

// Throws kData for an image that --on-bad-image fail does not tolerate.
[[noreturn]] void fail_on_bad_image(const QuarantinedImage& bad);

}  // namespace retina
