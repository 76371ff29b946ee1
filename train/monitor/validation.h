// Validation during training: all ranks run the network over their share, rank 0 judges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "shared/comm/communicator.h"
#include "shared/evaluation/predict/detect.h"
#include "shared/evaluation/score/box_groups.h"
#include "shared/report/report.h"
#include "shared/shard/shard_set.h"
#include "train/step/task_metrics.h"
#include "train/step/training_task.h"

namespace retina {

struct ValidationResult {
  std::vector<double> values = {};                    // as in ValidationMetrics
  std::uint32_t count_best = kMaxDetectionsPerImage;  // the same
  TaskMetrics losses = {};                            // the same
  Table classes = {};                                 // a row a class, for the run's page
};

class Validation {
 public:
  virtual ~Validation() = default;

  // Over all images. False, on all ranks, when a stop signal came to any of them before the last
  // image: then the rest is skipped, and there is no result. Collective.
  virtual bool run(Communicator& communicator) = 0;
  // Of the last `run`; rank 0.
  virtual ValidationResult result() = 0;
  // Up to `count` images of the last `run` that are worth a look; rank 0.
  virtual Gallery gallery(std::size_t count) const = 0;
};

// Of the task's network, with the task's loss: from the same forward, as training computes it. Both
// `shards` and `task` outlive it. `options.max_images` restricts it to the first images. Of a
// detector, the log also has AP without the images `seen`, which are trained on, too.
std::unique_ptr<Validation> make_validation(const ShardSet& shards, TrainingTask& task,
                                            const DetectOptions& options,
                                            const std::set<std::int64_t>& seen = {});

}  // namespace retina
