// Opens a job: checks its options against the ranks, opens device, data and the run's folder, and
// decides what follows from the data.
#pragma once

#include "shared/cli/cli.h"
#include "train/start/job.h"

namespace retina {

// Applies the defaults that follow from the opened data; every rank takes rank 0's decisions. The
// options get their final global batch, even if it came from --images-per-rank. Throws as
// decide_defaults() and Cli::check(). Collective.
void fit_to_data(Job& job, Command& command);

// Opens everything, on rank 0 first. Throws kConfig for options that do not fit the ranks,
// kUnavailable for ranks on different devices, and what opening the data or the run throws.
// Collective.
void open_job(Job& job, Command& command);

}  // namespace retina
