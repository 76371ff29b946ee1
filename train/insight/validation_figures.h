// What a validation comes to, by the run's task.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "shared/base/task.h"

namespace retina {

struct ValidationMetrics {
  std::int64_t step = 0, epoch = 0;
  Task task = Task::kDetection;
  // Detection: the 12 numbers in pycocotools' order. Classification: top-1 and top-5 accuracy, the
  // mean cross-entropy.
  std::vector<double> figures = {};

  // By which validations are compared, higher is better: AP, or top-1 accuracy.
  double judged() const { return figures.front(); }
};

inline constexpr std::size_t kClassificationFigures = 3;

// What people look at, by its place in `figures`: the judged one first.
using ShownFigures = std::vector<std::pair<const char*, std::size_t>>;
const ShownFigures& shown_figures(Task task);

}  // namespace retina
