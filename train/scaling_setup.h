// What a scaling report compares runs by: everything that a step's time depends on except the
// ranks.
#pragma once

#include <c10/core/Device.h>

#include "train/options.h"
#include "train/plan/training_plan.h"
#include "train/scaling/scaling_report.h"

namespace retina {

// Every rank must have the same images a step: where one has more the others wait, which no report
// on other numbers of ranks can be compared with. Throws kConfig.
void check_even_shares(const TrainOptions& options, int rank_count);

// No runs yet. After `check_even_shares`.
ScalingData scaling_data(const TrainOptions& options, const TrainingSet& train, int rank_count,
                         const c10::Device& device);

}  // namespace retina
