#include "train/step/task_figures.h"

namespace retina {

const std::vector<TaskFigure>& task_figures(Task task) {
  static const std::vector<TaskFigure> kDetector = {
      {.key = "classification_loss", .label = "classification", .is_loss = true},
      {.key = "box_loss", .label = "boxes", .is_loss = true}};
  static const std::vector<TaskFigure> kClassifier = {
      {.key = "cross_entropy", .label = "cross-entropy", .is_loss = true},
      {.key = "top1", .label = "top-1", .is_loss = false},
      {.key = "top5", .label = "top-5", .is_loss = false}};
  return task == Task::kDetection ? kDetector : kClassifier;
}

double total_loss(Task task, const TaskFigures& figures) {
  double sum = 0;
  for (std::size_t i = 0; i < task_figures(task).size(); ++i) {
    if (task_figures(task)[i].is_loss) sum += figures[i];
  }
  return sum;
}

}  // namespace retina
