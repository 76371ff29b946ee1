// THE loop: load -> forward -> loss -> backward -> reduce -> update, step after step; between them
// the run's epochs end and its checkpoints are written (training_run.h).
#pragma once

#include "shared/data/loader.h"
#include "train/monitor/reduction_log.h"
#include "train/monitor/timeline.h"
#include "train/plan/image_names.h"
#include "train/step/damaged_records.h"
#include "train/step_pipeline.h"
#include "train/training_run.h"

namespace retina {

class Trainer {
 public:
  // `run` and `timeline` (null: none) outlive it.
  Trainer(TrainingRun& run, TimelineFile* timeline);

  // Trains to the end or until a stop signal. Returns the exit code: 0 or 75. Collective. Throws
  // Error{kAnswerNo} when the loss is not finite (with --on-nan rollback: too often), Error{kData}
  // when too many records are damaged, Error{kIo} when a checkpoint cannot be written,
  // Error{kRankFailure} when the ranks' weights have drifted.
  int run();

 private:
  // What became of a step; all ranks agree on it.
  struct StepOutcome {
    bool is_finite = true;  // else a step under way made no update, and is skipped from now on
    bool stop = false;      // a stop signal came to a rank
    bool save_due = false;  // by rank 0's clock or the count of steps
  };

  // The parts of `run`, in the order of their use.
  StepMetrics begin_step();
  // The step's gradient, of all ranks. Unless it is there nothing has happened, but that fewer
  // images go through the network at once where memory ran out. Collective.
  enum class Gradient {
    kThere,
    kWithoutMemory,  // on a rank: the step is to be repeated
    kStopped,        // by a signal, while a rank waited for images
  };
  Gradient compute_gradient(BatchLoader& loader, StepMetrics& step);
  // Of this rank. False: stopped.
  bool add_micro_batches(BatchLoader& loader, StepMetrics& step);
  std::optional<Batch> load(BatchLoader& loader, StepMetrics& step);  // the next micro-batch
  void reduce(StepMetrics& step);  // sums the gradients over all images of all ranks
  void update(StepMetrics& step);  // clips, moves the weights
  StepOutcome end_step(StepMetrics& step);
  // False when the step made no update.
  bool take_in(const RetiredStep& step);
  // All steps under way retire, or those to the first that made no update. Collective.
  bool drain();

  TrainingRun& run_;
  TimelineFile* timeline_;
  TrainingState& state_;
  Replica& replica_;
  Activity* activity_;
  StepPipeline pipeline_;
  ReductionLog reduction_log_;  // rank 0
  IgnoredBoxWarning ignored_box_warning_;
  DamagedRecords damaged_records_;
};

}  // namespace retina
