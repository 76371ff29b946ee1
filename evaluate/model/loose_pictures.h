// retina-eval --images: detections for the pictures of a folder, as COCO JSON and drawn, without
// ground truth and so without scores.
#pragma once

#include <c10/core/Device.h>

#include "evaluate/model/loaded_model.h"
#include "evaluate/options.h"
#include "shared/base/cli.h"
#include "shared/comm/communicator.h"

namespace retina {

// Finds the pictures below options.images, detects on all of them and writes the output folder.
// Files that cannot be used are named on stderr, listed in the output folder and left out. All
// ranks enter and share the files; the results do not depend on their number. Throws kNoInput (no
// such folder), kData (none of its files can be used, or it has none), kConfig, kIo.
void detect_loose_pictures(const EvalOptions& options, const Cli& cli, LoadedModel& model,
                           const c10::Device& device, Communicator& ranks);

}  // namespace retina
