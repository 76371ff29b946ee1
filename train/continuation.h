// Whether a checkpoint may be continued from: rank 0 asks before a run's folder is touched.
#pragma once

#include "train/options.h"
#include "train/run_config.h"
#include "train/start_point.h"
#include "train/training_set.h"

namespace retina {

// Throws kConfig, one error with all that differs, unless the checkpoint's run had the same
// training set, model, and options but those that `may_change`: each image once an epoch and the
// weights' bits depend on them.
void check_continues(const Found& found, const TrainOptions& options, const RunConfig& config,
                     const TrainingSet& train);

}  // namespace retina
