// The task that a data set is labelled for and a model is trained for.
#pragma once

#include "shared/base/choices.h"

namespace retina {

enum class Task {
  kDetection,       // boxes with classes
  kClassification,  // one class for the whole image
};

// Words of the tasks in manifests and checkpoints; part of the formats, never rename.
inline const Choices<Task> kTasks = {{"detection", Task::kDetection},
                                     {"classification", Task::kClassification}};
// Words of the tasks on command lines.
inline const Choices<Task> kTaskOptions = {{"detect", Task::kDetection},
                                           {"classify", Task::kClassification}};

// Modes of an option that applies to one task only (OptionRules).
inline constexpr unsigned kDetect = 1, kClassify = 2;

}  // namespace retina
