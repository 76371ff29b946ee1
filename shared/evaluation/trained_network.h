// From a checkpoint to the network that it holds.
#pragma once

#include <memory>
#include <string>

#include "shared/checkpoint/checkpoint.h"
#include "shared/model/classifier.h"
#include "shared/model/retinanet.h"

namespace retina {

// On the CPU, in evaluation mode. Throws kConfig for the import of an image classifier, which has
// no heads, kData where weights, configuration and categories do not fit each other. `path` names
// the checkpoint.
RetinaNet trained_network(const Checkpoint& checkpoint, const std::string& path);
// The same for a classifier's.
std::unique_ptr<Classifier> trained_classifier(const Checkpoint& checkpoint,
                                               const std::string& path);

// What a checkpoint was trained for, from its configuration. Throws kData.
Task task_of_checkpoint(const std::string& config_json, const std::string& path);

}  // namespace retina
