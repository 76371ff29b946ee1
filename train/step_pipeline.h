// Steps under way: launched, with a loss that has not been read yet. A GPU has one after each step,
// so that it never waits for the program; a CPU has none. A step retires when all ranks know its
// loss.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "shared/base/measure.h"
#include "shared/comm/communicator.h"
#include "train/monitor/metrics_log.h"
#include "train/step/replica.h"

namespace retina {

// Events that the ranks share after a step, so that all continue the same way: the number of ranks
// with each, and of images.
struct StepEvents {
  double stop = 0;             // a stop signal came
  double save = 0;             // by the clock a checkpoint is due
  double pace = 0;             // by the clock the pace of a run with --for is due
  double replaced_images = 0;  // images of the step in the place of a damaged one
  double found_damage = 0;     // in a record not known as damaged
};

struct RetiredStep {
  // Complete metrics: the losses are sums over ranks; the time runs from the start of the step, or
  // the end of the step before where that was still under way, to its own end.
  StepMetrics metrics;
  // "the loss is not finite (...)" or "the gradient is not finite (...)"; "" for a good step, and
  // where a smaller loss scale may make the gradient finite.
  std::string problem;
};

// Returns why training cannot go on from a step with these metrics over all ranks; "" where it can.
std::string problem_of(const StepMetrics& step);

class StepPipeline {
 public:
  // At most `depth` steps are under way when the next begins. References must outlive this.
  StepPipeline(Replica& replica, Communicator& communicator, std::size_t depth)
      : replica_(replica), communicator_(communicator), depth_(depth) {}

  // Marks the start of the next step.
  void begin_step() { begun_seconds_ = now_seconds(); }

  struct Launched {
    StepEvents events;                  // events of all ranks
    std::optional<RetiredStep> oldest;  // retired, when more than `depth` were under way
  };
  // Adds `step`, whose update is on its way to the device, with this rank's events `own`. One
  // all-reduce shares the ranks' events and the oldest step's loss. Collective.
  Launched launch(const StepMetrics& step, const StepEvents& own);

  // Waits for the oldest step, if any. Collective.
  std::optional<RetiredStep> retire();

  // Forgets all steps under way.
  void clear() { under_way_.clear(); }

 private:
  struct UnderWay {
    StepMetrics metrics;
    double begun_seconds;
  };
  // Sums over ranks: the losses of the oldest step, or 0, and the events. All f64.
  struct Sums {
    TaskMetrics loss = {};
    StepEvents events = {};
  };
  static_assert(sizeof(Sums) == sizeof(TaskMetrics) + sizeof(StepEvents), "no padding to reduce");
  struct Agreement {
    Sums all;
    double wait_ms = 0;  // time spent waiting for the other ranks
  };
  Agreement agree(const StepEvents& own, bool with_loss);
  RetiredStep take_oldest(const TaskMetrics& loss);

  Replica& replica_;
  Communicator& communicator_;
  std::size_t depth_;
  double begun_seconds_ = 0, retired_seconds_ = 0;  // times of the newest and last retired step
  std::deque<UnderWay> under_way_;                  // oldest first
};

}  // namespace retina
