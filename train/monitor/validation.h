// Validation during training: all ranks run the network over their share, rank 0 scores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "shared/comm/communicator.h"
#include "shared/evaluation/predict/detect.h"
#include "shared/evaluation/score/box_groups.h"
#include "shared/evaluation/score/verdict.h"
#include "shared/report/report.h"
#include "shared/shard/shard_set.h"
#include "train/step/task_metrics.h"
#include "train/step/training_task.h"

namespace retina {

struct ValidationResult {
  std::vector<double> values = {};                    // as in ValidationMetrics
  std::uint32_t count_best = kMaxDetectionsPerImage;  // as in ValidationMetrics
  TaskMetrics losses = {};                            // as in ValidationMetrics
  Table classes = {};                                 // one row a class, for the run's page
};

class Validation {
 public:
  virtual ~Validation() = default;

  // Runs over all images. Returns false, on all ranks, when a stop signal came to any of them
  // before the last image: then the rest is skipped, and there is no result. Collective.
  virtual bool run(Communicator& communicator) = 0;
  // Returns the result of the last `run`; rank 0.
  virtual ValidationResult result() = 0;
  // Returns facts of the last `run` for the verdict: AP, its interval and what it was measured on.
  // Nothing for a classifier, or where an interval would take long. Rank 0.
  virtual std::optional<VerdictInput> verdict_facts() { return std::nullopt; }
  // Returns up to `count` images of the last `run` that are worth a look; rank 0.
  virtual Gallery gallery(std::size_t count) const = 0;
};

// Makes the validation of the task's network. The loss is the task's, from the same forward, as
// training computes it. `shards` and `task` must outlive the result. `options.max_images` restricts
// it to the first images. For a detector, the log also has AP without the images `seen`, which are
// trained on, too.
std::unique_ptr<Validation> make_validation(const ShardSet& shards, TrainingTask& task,
                                            const DetectOptions& options,
                                            const std::set<std::int64_t>& seen = {});

}  // namespace retina
