// Decides what a training starts from, before its data are opened: the file that --init names, and
// the model's options that follow from it.
#pragma once

#include <string>

#include "shared/cli/cli.h"
#include "shared/comm/communicator.h"
#include "train/start/options.h"

namespace retina {

// Applies --init: replaces a name (pretrained.h) by its file, and sets the model's options that no
// option, recipe or size says as in the checkpoint that training starts from: the newest of the run
// in --output, else that of --resume, else that of --init. A detector gives --backbone, --norm-eps,
// --head-norm, --p6, --anchor-sizes, --anchors-per-location, --anchor-offset, --fpn-channels,
// --head-convs and --keep-ratio and, unless a published recipe is named, --min-side and --max-side;
// a backbone gives the first two. `cli` parsed `options`. Rank 0 reads. Throws kNoInput (there is
// nothing to start from), kData (a damaged checkpoint, or another's under a name), as validate().
// Collective.
void follow_init(TrainOptions& options, const Cli& cli, Communicator& communicator);

// Returns the config, as JSON, of the newest intact checkpoint in a run's folder: all have the
// run's model. "" without one; damage is reported where the run is opened.
std::string config_of_run(const std::string& folder);

}  // namespace retina
