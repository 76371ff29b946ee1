#include "train/step/task_metrics.h"

namespace retina {

const std::vector<TaskMetric>& task_metrics(Task task) {
  static const std::vector<TaskMetric> kDetector = {
      {.key = "classification_loss", .label = "classification", .is_loss = true},
      {.key = "box_loss", .label = "boxes", .is_loss = true}};
  static const std::vector<TaskMetric> kClassifier = {
      {.key = "cross_entropy", .label = "cross-entropy", .is_loss = true},
      {.key = "top1", .label = "top-1", .is_loss = false},
      {.key = "top5", .label = "top-5", .is_loss = false}};
  return task == Task::kDetection ? kDetector : kClassifier;
}

double total_loss(Task task, const TaskMetrics& metrics) {
  double sum = 0;
  for (std::size_t i = 0; i < task_metrics(task).size(); ++i) {
    if (task_metrics(task)[i].is_loss) sum += metrics[i];
  }
  return sum;
}

}  // namespace retina
