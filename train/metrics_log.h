// metrics.jsonl: one JSON object a line, for people's plots and for the report page.
//
// A step's line:  step, epoch, loss, classification_loss, box_loss, lr, grad_norm,
//                 images_per_second, step_ms, data_wait_ms, exposed_comm_ms, memory (bytes)
// A validation's: step, epoch, validation {AP, AP50, ..., stats: the 12 numbers}
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace retina {

// One step, over all ranks.
struct StepMetrics {
  std::int64_t step = 0;                         // updates done, the first is 1
  std::int64_t epoch = 0;                        // the one in progress, the first is 1
  double classification_loss = 0, box_loss = 0;  // mean over the step's real images
  double learning_rate = 0;
  double gradient_norm = 0;  // before clipping
  double images_per_second = 0;
  double step_ms = 0;
  double data_wait_ms = 0;        // waiting for the loader, rank 0
  double exposed_comm_ms = 0;     // waiting for the all-reduce, rank 0
  std::int64_t memory_bytes = 0;  // rank 0: most resident memory so far

  double loss() const { return classification_loss + box_loss; }
};

struct ValidationMetrics {
  std::int64_t step = 0, epoch = 0;
  std::array<double, 12> stats = {};  // pycocotools' order
};

class MetricsLog {
 public:
  // Continues the file, cut after `step`: what a killed run wrote beyond its last checkpoint goes.
  // A line that is not whole goes too. Throws kCannotCreate, kIo.
  MetricsLog(std::string path, std::int64_t step);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  void append(const StepMetrics& metrics);
  void append(const ValidationMetrics& metrics);
  // To the disk; before a checkpoint of the same step is published.
  void sync();

  const std::vector<StepMetrics>& steps() const { return steps_; }
  const std::vector<ValidationMetrics>& validations() const { return validations_; }

 private:
  void write_line(const std::string& json);
  std::string path_;
  int descriptor_ = -1;
  std::vector<StepMetrics> steps_;
  std::vector<ValidationMetrics> validations_;
};

}  // namespace retina
