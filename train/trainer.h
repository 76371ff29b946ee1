// THE loop: load -> forward -> loss -> backward -> reduce -> update, step after step; between steps
// the run ends epochs and writes checkpoints (training_run.h).
#pragma once

#include "shared/data/loader.h"
#include "train/step/damaged_records.h"
#include "train/step_pipeline.h"
#include "train/training_run.h"

namespace retina {

class Trainer {
 public:
  // `run` must outlive this.
  explicit Trainer(TrainingRun& run);

  // Trains to the end or until a stop signal. Returns the exit code: 0 or 75. Collective. Throws
  // Error{kAnswerNo} when the loss is not finite (with --on-nan rollback: too often), Error{kData}
  // when too many records are damaged, Error{kIo} when a checkpoint cannot be written,
  // Error{kRankFailure} when the ranks' weights have drifted.
  int run();

 private:
  // The outcome of a step, the same on all ranks.
  struct StepOutcome {
    bool is_finite = true;  // false: a step under way had a loss or gradient that is not finite,
                            // and is skipped from now on
    bool stop = false;      // a stop signal came to a rank
    bool save_due = false;  // by rank 0's clock or the count of steps
    bool pace_due = false;  // by rank 0's clock
  };

  // The parts of `run`, in the order of their use.
  StepMetrics begin_step();
  // The state of a step's gradient, over all ranks. Unless it is kThere nothing has changed, except
  // that fewer images go through the network at once where memory ran out.
  enum class Gradient {
    kThere,
    kWithoutMemory,  // a rank ran out of memory: the step must be repeated
    kStopped,        // a signal came while a rank waited for images, or in a slow step
  };
  Gradient compute_gradient(BatchLoader& loader, StepMetrics& step);
  // Runs this rank's micro-batches. Returns false when a stop signal came.
  bool add_micro_batches(BatchLoader& loader, StepMetrics& step);
  std::optional<Batch> load(BatchLoader& loader, StepMetrics& step);  // null: stopped
  void reduce(StepMetrics& step);  // sums the gradients over all images of all ranks
  void update(StepMetrics& step);  // clips, moves the weights
  StepOutcome end_step(StepMetrics& step);
  // Records a step. Returns false when its loss or gradient is not finite, so that it is skipped.
  bool ingest(const RetiredStep& step);
  // Retires all steps under way, or those up to the first that is skipped; then returns false.
  // Collective.
  bool drain();

  TrainingRun& run_;
  TrainingState& state_;
  Replica& replica_;
  Activity* activity_;
  StepPipeline pipeline_;
  DamagedRecords damaged_records_;
  double step_begin_s_ = 0;  // on the clock
};

}  // namespace retina
