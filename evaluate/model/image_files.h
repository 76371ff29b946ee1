// retina-eval --images: detects on image files and writes COCO JSON, YOLO's labels, CSV or GeoJSON,
// and drawings, without ground truth and so without metrics.
#pragma once

#include <c10/core/Device.h>

#include "evaluate/model/loaded_model.h"
#include "evaluate/options.h"
#include "shared/cli/cli.h"
#include "shared/comm/communicator.h"

namespace retina {

// Finds the files of options.images, detects on all of them and writes the output folder. Files
// that cannot be used are named on stderr, listed in the output folder and skipped. All ranks enter
// and share the files; the results do not depend on their number. Throws kNoInput (no such file or
// folder), kData (there are no files, or none that can be used), kConfig, kIo.
void detect_image_files(const EvalOptions& options, const Cli& cli, LoadedModel& model,
                        const c10::Device& device, Communicator& ranks);

}  // namespace retina
