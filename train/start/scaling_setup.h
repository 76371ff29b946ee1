// The settings by which a scaling report compares runs: all that a step's time depends on, except
// the ranks.
#pragma once

#include <c10/core/Device.h>

#include "train/plan/training_plan.h"
#include "train/scaling/scaling_report.h"
#include "train/start/options.h"

namespace retina {

// Throws kConfig unless every rank has the same images per step: where one has more the others
// wait, which no report on other numbers of ranks can be compared with.
void check_even_shares(const TrainOptions& options, int rank_count);

// Returns the data of a report without runs. Call after `check_even_shares`.
ScalingData scaling_data(const TrainOptions& options, const TrainingSet& train, int rank_count,
                         const c10::Device& device);

}  // namespace retina
