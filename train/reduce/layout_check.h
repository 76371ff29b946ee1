// Ranks that lay out their gradients differently would add one parameter to another.
#pragma once

#include <vector>

#include "shared/comm/communicator.h"
#include "train/reduce/bucket_plan.h"

namespace retina {

// Throws Error{kConfig} on rank 0 when a rank's parameters or plan differ from rank 0's: names the
// rank and the first parameter that differs. The other ranks wait for the job's end. Collective.
void check_same_layout(const std::vector<BucketParameter>& parameters, const BucketPlan& plan,
                       Communicator& communicator);

}  // namespace retina
