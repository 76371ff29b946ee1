// The metrics of a task's steps.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "shared/base/task.h"

namespace retina {

// The metrics of a step, in the order of task_metrics(): sums over micro-batches and ranks of each
// image's share of the step's real images, so that a metric is their mean. Unused ones are 0.
inline constexpr std::size_t kMostMetrics = 3;
using TaskMetrics = std::array<double, kMostMetrics>;

struct TaskMetric {
  const char* key;    // in metrics.jsonl; part of the format, never rename
  const char* label;  // in curves and messages
  bool is_loss;       // a part of the minimised loss; else a share of the images, 0 to 1
};

// Returns a task's metrics. Detection: the losses of classes and boxes. Classification:
// cross-entropy, and how often the class is the best or among the best five (of the augmented
// images, by the weights before the step).
const std::vector<TaskMetric>& task_metrics(Task task);

// Returns the sum of the metrics that are losses.
double total_loss(Task task, const TaskMetrics& metrics);

}  // namespace retina
