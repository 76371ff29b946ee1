// Converts a checkpoint to its network.
#pragma once

#include <memory>
#include <string>

#include "shared/checkpoint/checkpoint.h"
#include "shared/model/classifier.h"
#include "shared/model/retinanet.h"

namespace retina {

// Throws kConfig, naming `path`, if a model is for another task than `wanted`.
void check_model_task(Task got, Task wanted, const std::string& path);

// Returns the checkpoint's network on the CPU, in evaluation mode. Throws kConfig for a classifier
// and for the import of a backbone alone, which has no heads, kData if weights, configuration and
// categories do not fit each other. Errors name `path`.
RetinaNet trained_network(const Checkpoint& checkpoint, const std::string& path);
// Returns the checkpoint's classifier; throws kConfig for a RetinaNet.
std::unique_ptr<Classifier> trained_classifier(const Checkpoint& checkpoint,
                                               const std::string& path);

}  // namespace retina
