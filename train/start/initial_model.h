// What a training starts from, before its data are opened: which file --init names, and what of
// the model follows from it.
#pragma once

#include <string>

#include "shared/cli/cli.h"
#include "shared/comm/communicator.h"
#include "train/start/options.h"

namespace retina {

// With --init: puts a file in the place of a name (pretrained.h), and lets the options of the model
// that no option, recipe or size says follow the checkpoint that training starts from: the newest
// of the run in --output, else that of --resume, else that of --init. A detector's are --backbone,
// --norm-eps, --head-norm, --p6, --fpn-channels, --head-convs, --anchor-sizes and --anchor-offset;
// where only the backbone is taken, the first two. `cli` parsed `options`. Rank 0 reads. Throws
// kNoInput (there is nothing to start from), kData (a damaged checkpoint, or another's under a
// name), as validate(). Collective.
void follow_init(TrainOptions& options, const Cli& cli, Communicator& communicator);

// The config of a run's newest checkpoint that is whole: all have the run's model. "" without one;
// what is damaged is told where the run is opened.
std::string config_of_run(const std::string& folder);

}  // namespace retina
