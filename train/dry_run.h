// Forecasts of a run, without running it: --check-args and --preview.
#pragma once

#include <string>

#include "train/start/open_job.h"

namespace retina {

// Decides what the data decide, as far as they can be read here and now. Returns the decisions,
// what would happen to a run in --output, and the memory that a single rank needs, a line each.
// Writes nothing.
std::string forecast(Command command);

// Writes, on rank 0, a page with the samples to train on. A run in the folder stays as it is.
// Returns the exit code. Collective.
int preview(Command& command, Communicator& communicator);

}  // namespace retina
