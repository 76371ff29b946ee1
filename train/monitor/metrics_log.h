// metrics.jsonl: one JSON object a line, for people's plots and for the report page.
//
// A step's line:  step, epoch, loss, the task's metrics (classification_loss and box_loss, or
//                 cross_entropy, top1 and top5: task_metrics.h), lr, grad_norm,
//                 images_per_second, images, replaced_images, ranks, step_ms, compute_ms,
//                 data_wait_ms, exposed_comm_ms, comm_ms, comm_bytes, algorithm_bytes_per_second,
//                 bus_bytes_per_second, overlap_ms, checkpoint_ms, memory (bytes),
//                 upload_ms, forward_ms, loss_ms, backward_ms, update_ms (of rank 0), device_memory
//                 (bytes; 0 on a CPU), micro_batch (images of a rank at once); with --precision
//                 fp16 loss_scale. grad_norm is null where fp16 could not hold the gradient, so
//                 that the step updated nothing
// A validation's: step, epoch, validation {AP, AP50, ..., loss, classification_loss, box_loss,
//                 stats: the 12 numbers; count_best: how many detections of an image and class
//                 count}, of a classifier {top1, top5, loss, cross_entropy (with
//                 label smoothing, as in training)}
// An epoch's:     step, epoch, epoch_seconds, images_per_epoch, steps, rank_times [{rank, node,
//                 images, compute_ms, data_wait_ms, comm_wait_ms: median step; compute_sum_ms,
//                 ...}]. The last of an epoch counts. A run that begins or ends within an epoch
//                 writes one without epoch_seconds and images_per_epoch.
// A continuation's with another length: step, total_steps, total_steps_before. It goes on from
//                 this step.
// In TensorBoard (train/report/event_file.h), which has the first two, a tag ends with the key;
// lr's with learning_rate.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/file.h"
#include "shared/comm/comm_stats.h"
#include "shared/evaluation/score/box_groups.h"
#include "train/monitor/rank_times.h"
#include "train/reduce/gradient_buckets.h"
#include "train/step/step_clock.h"
#include "train/step/task_metrics.h"

namespace retina {

// The metrics of one step, over all ranks.
struct StepMetrics {
  std::int64_t step = 0;   // updates done, counted from 1
  std::int64_t epoch = 0;  // the one in progress, counted from 1
  Task task = Task::kDetection;
  TaskMetrics values = {};  // means over the step's real images
  double learning_rate = 0;
  double gradient_norm = 0;  // before clipping; not finite where the step updated nothing
  double loss_scale = 0;     // scale of backward, with --precision fp16; else 0
  double images_per_second = 0;
  std::int64_t images = 0;           // real images
  std::int64_t replaced_images = 0;  // those in the place of a damaged one
  int images_own = 0;                // this rank's images, including pad slots; not in the file
  int ranks = 1;
  // The rest is measured on rank 0.
  double step_ms = 0;
  double data_wait_ms = 0;        // time spent waiting for the loader
  double exposed_comm_ms = 0;     // time the main thread waits for the sums of gradients and losses
  ReduceCost reduce = {};         // the gradients' all-reduces
  double checkpoint_ms = 0;       // pause for saving since the step before
  std::int64_t memory_bytes = 0;  // peak resident memory so far
  PartTimes parts = {};           // parts of compute_ms
  int micro_batch = 0;            // images that a rank processes at once
  std::int64_t device_memory_bytes = 0;  // peak memory of tensors on the GPU so far; 0 on a CPU

  double loss() const { return total_loss(task, values); }
  bool made_update() const { return std::isfinite(gradient_norm); }
  double compute_ms() const { return step_ms - data_wait_ms - exposed_comm_ms; }
};

// Returns "epoch 2, loss 1.234 (class 0.567, box 0.667), lr 0.01, 15.2 images/s".
std::string summary(const StepMetrics& metrics);

// The times of an epoch, or of the part of it in which a run ended.
struct EpochMetrics {
  std::int64_t step = 0, epoch = 0;
  // Time of its steps, including those before a continuation, without the time between steps
  // (validation, checkpoints). Unset within an epoch, and where a step's line is missing.
  std::optional<double> epoch_seconds = {};
  std::int64_t images_per_epoch = 0;
  std::int64_t step_count = 0;             // steps in `rank_times`: those since the last start
  std::vector<RankTimes> rank_times = {};  // empty: no step since then
};

struct ValidationMetrics {
  std::int64_t step = 0, epoch = 0;
  Task task = Task::kDetection;
  // Detection: the 12 numbers in pycocotools' order. Classification: top-1 and top-5 accuracy, the
  // mean cross-entropy.
  std::vector<double> values = {};
  // Number of detections of an image and class, best first, that count.
  std::uint32_t count_best = kMaxDetectionsPerImage;
  // The losses among task_metrics(), as training computes them: means over the images, by the
  // weights that are validated, with the network in evaluation mode.
  TaskMetrics losses = {};

  // Returns the metric by which validations are compared, higher is better: AP, or top-1 accuracy.
  double judged() const { return values.front(); }
};

// A new length of the run, and of its schedule, from `step` on.
struct LengthChange {
  std::int64_t step = 0, total_steps = 0, total_steps_before = 0;

  friend bool operator==(const LengthChange&, const LengthChange&) = default;
};

// Names of the metrics that reports show, with their keys in the log: the first ones of
// ValidationMetrics::values, in its order.
using ShownMetrics = std::vector<std::pair<const char*, const char*>>;
const ShownMetrics& shown_metrics(Task task);

// Returns all metrics of such a line except the step, with their tags in TensorBoard; for a
// detector's validation the 12 numbers, too.
using Scalars = std::vector<std::pair<std::string, double>>;
Scalars event_scalars(const StepMetrics& metrics);
Scalars event_scalars(const ValidationMetrics& metrics);

// The numbers of lines of one kind by their keys: equally long columns. NaN: the line has none, or
// it was not finite.
using Columns = std::map<std::string, std::vector<double>>;

class MetricsLog {
 public:
  // Opens the file for a run that continues after `step`. Removes later lines, which a killed run
  // wrote beyond its last checkpoint, and an incomplete line. Throws kCannotCreate, kIo.
  MetricsLog(const std::string& path, std::int64_t step);

  void append(const StepMetrics& metrics);
  void append(const ValidationMetrics& metrics);
  // Appends an epoch's line. With `update_count` updates, the epoch's steps except skipped ones, it
  // fills in seconds and images when each has its line: a run that began within the epoch knows
  // only a part of it. 0: the epoch is not yet whole.
  void append(EpochMetrics metrics, std::int64_t update_count);
  // Appends the change once, even if a job that was killed before its next checkpoint reports it
  // again.
  void append(const LengthChange& change);
  // Writes to the disk; called before a checkpoint of the same step is published.
  void sync() { file_->sync(); }

  const Columns& steps() const { return steps_; }
  const Columns& validations() const { return validations_; }
  const std::vector<EpochMetrics>& epochs() const { return epochs_; }
  const std::vector<LengthChange>& length_changes() const { return length_changes_; }

 private:
  void add(const JsonView& line);
  void append_line(const std::string& json);

  std::string path_;
  std::optional<AppendFile> file_;  // set at the end of the constructor
  Columns steps_, validations_;
  std::vector<EpochMetrics> epochs_;
  std::vector<LengthChange> length_changes_;
};

}  // namespace retina
