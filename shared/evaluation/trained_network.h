// From a checkpoint to the network that it holds.
#pragma once

#include <string>

#include "shared/checkpoint/checkpoint.h"
#include "shared/model/retinanet.h"

namespace retina {

// On the CPU, in evaluation mode. Throws kConfig for the import of an image classifier, which has
// no heads, kData where weights, configuration and categories do not fit each other. `path` names
// the checkpoint.
RetinaNet trained_network(const Checkpoint& checkpoint, const std::string& path);

}  // namespace retina
