#include "train/insight/validation_figures.h"

#include "shared/evaluation/metrics.h"

namespace retina {

const ShownFigures& shown_figures(Task task) {
  static const ShownFigures kDetector = {{"AP", kAp}, {"AP50", kAp50}, {"AP75", kAp75}};
  static const ShownFigures kClassifier = {{"top-1", 0}, {"top-5", 1}};
  return task == Task::kDetection ? kDetector : kClassifier;
}

}  // namespace retina
