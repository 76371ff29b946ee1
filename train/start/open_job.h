// Opens a job: checks its options against the ranks, opens device, data and the run's folder, and
// decides what follows from the data.
#pragma once

#include "shared/cli/cli.h"
#include "train/start/job.h"

namespace retina {

// A command line and the options that it fills.
struct Command {
  Cli& cli;
  TrainOptions& options;
};

// Applies the options that the opened data decide; every rank takes rank 0's decisions. A run keeps
// its global batch, however it was decided. Collective.
void fit_to_data(Job& job, Command& command);

// Opens everything, with rank 0 first. Throws kConfig for options that do not fit the ranks,
// kUnavailable for ranks on different devices, and as what it opens. Collective.
void open_job(Job& job, Command& command);

}  // namespace retina
