// Prints, on rank 0, what a user should see before the first step.
#pragma once

#include <string>
#include <vector>

#include "train/start/job.h"

namespace retina {

// Returns the warnings about the sets to print before a run: the same data for training and
// validation, whose metric then says nothing, and the notes on each set.
std::vector<std::string> warnings_of(const TrainingData& data);

// Prints devices, data, batch, schedule and warnings. Collective.
void print_start(const Job& job);

}  // namespace retina
