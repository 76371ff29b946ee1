// How full the shard is that a part (--part) begins in. A shard is closed by the first record that
// does not fit, so where one begins depends on the sizes of all records before it. A part that
// knows how much of its first shard the part before it fills closes that shard where it is closed
// without parts, and so all others, and the merge need not make them again (merge.h).
#pragma once

#include <cstdint>

#include "preprocess/options.h"
#include "preprocess/pack_plan.h"
#include "shared/shard/manifest.h"

namespace retina {

// By the sizes of the image files; 0 where images are re-encoded. A guess: an image that will be
// quarantined although its file is there counts. The sizes of the files of each part are kept in
// the journal of `options.output` for the other parts: none has to ask for all.
std::uint64_t bytes_before_part(const PackOptions& options, const Manifest& begun,
                                const PackPlan& plan, const PackPart& part);

}  // namespace retina
