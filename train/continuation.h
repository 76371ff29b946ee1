// Whether a checkpoint may be continued from: rank 0 asks before a run's folder is touched.
#pragma once

#include "train/options.h"
#include "train/run_config.h"
#include "train/run_dir.h"
#include "train/start_point.h"
#include "train/training_set.h"

namespace retina {

// Throws kConfig, one error with all that differs, unless the checkpoint's run had the same
// training set, model, and options but those that `may_change`: each image once an epoch and the
// weights' bits depend on them.
void check_continues(const Found& found, const TrainOptions& options, const RunConfig& config,
                     const TrainingSet& train);

// --resume FILE where the folder holds a run: throws kConfig unless FILE is `newest`, its newest
// checkpoint, or what the run began from, as when its command is given again.
void check_asked_for(const RunDir& dir, const Found& newest, const TrainOptions& options);

// --overwrite removes the checkpoints in the folder: throws kConfig when --resume or --init is one.
void check_keeps_sources(const RunDir& dir, const TrainOptions& options);

}  // namespace retina
