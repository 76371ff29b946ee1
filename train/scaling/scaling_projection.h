// The figures of a scaling report: what was measured against one rank, and what the model says of
// more ranks.
#pragma once

#include <string>
#include <vector>

#include "train/scaling/scaling_report.h"

namespace retina {

struct Projection {
  int ranks = 1;
  double step_seconds = 0, images_per_second = 0, efficiency = 0, epoch_seconds = 0;
};

std::vector<ScalingPoint> points_of(const ScalingData& data);

// Images/s of a rank over those of a rank in the smallest run; 1 is perfect.
double efficiency(const ScalingData& data, double images_per_second, int ranks);

// Why no projection can be made: the model does not describe the runs themselves. "" when it does.
std::string misfit(const ScalingData& data, const ScalingModel& model);

// At 1, 2, 4, ... 1024 ranks; only for a model without a misfit.
std::vector<Projection> projections(const ScalingData& data, const ScalingModel& model);

}  // namespace retina
