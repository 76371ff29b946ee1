// What a data set is labelled for and a model is trained to do.
#pragma once

#include "shared/base/choices.h"

namespace retina {

enum class Task {
  kDetection,       // boxes with classes
  kClassification,  // one class for the whole image
};

// Their words in manifests and checkpoints; part of the formats, never rename.
inline const Choices<Task> kTasks = {{"detection", Task::kDetection},
                                     {"classification", Task::kClassification}};
// Their words on command lines.
inline const Choices<Task> kTaskOptions = {{"detect", Task::kDetection},
                                           {"classify", Task::kClassification}};

// The modes of an option that only one of them has (OptionRules).
inline constexpr unsigned kDetect = 1, kClassify = 2;

}  // namespace retina
