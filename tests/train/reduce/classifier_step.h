// A classifier's step of kStepImages images that ranks share; the last slot is a pad slot.
#pragma once

#include <string>

#include "shared/comm/communicator.h"
#include "shared/model/config.h"
#include "shared/ops/named_tensor.h"

namespace retina {

// Its gradients by name, in f64. `sync_bn`: batch norm over all ranks.
NamedTensors classifier_gradients(const std::string& backbone, Norm norm, bool sync_bn,
                                  Communicator& communicator);

}  // namespace retina
