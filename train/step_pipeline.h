// Steps under way: launched, their loss not read yet. A GPU has one after each step, so that it
// never waits for the program; a CPU has none. A step retires when all ranks know its loss.
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

// What the ranks tell each other after a step, so that all continue the same way.
struct StepNews {
  bool stop = false;                 // a stop signal came; any rank's counts
  bool save = false;                 // the clock says that a checkpoint is due; any rank's counts
  bool warned_of_ignored = false;    // of a box that is not trained on; any rank's counts
  std::int64_t replaced_images = 0;  // of the step; summed over ranks
  bool found_damage = false;         // in a record not known as damaged; any rank's counts
};

struct RetiredStep {
  // Complete: the losses are sums over ranks, the time is that from the step's begin, or the end of
  // the one before where that was still under way, to its own end.
  StepMetrics metrics;
  // "the loss is not finite (...)" or "the gradient is not finite (...)"; "" where all is well, and
  // where a smaller loss scale may make the gradient finite.
  std::string problem;
};

// Why training cannot go on from a step with these metrics over all ranks; "" where it can.
std::string problem_of(const StepMetrics& step);

class StepPipeline {
 public:
  // `depth` steps at most are under way when the next begins. References outlive this.
  StepPipeline(Replica& replica, Communicator& communicator, std::size_t depth)
      : replica_(replica), communicator_(communicator), depth_(depth) {}

  // The next step begins.
  void begin_step() { begun_seconds_ = now_seconds(); }

  struct Launched {
    StepNews news;                      // of all ranks
    std::optional<RetiredStep> oldest;  // retired, where more than `depth` were under way
    double launch_ms = 0;               // since `begin_step`
  };
  // The update of `step` is on its way to the device, and this rank has `own` news. One all-reduce
  // tells the ranks' news and the oldest step's loss. Collective.
  Launched launch(const StepMetrics& step, const StepNews& own);

  // Waits for the oldest step, if any. Collective.
  std::optional<RetiredStep> retire();

  // Forgets all of them.
  void clear() { under_way_.clear(); }

 private:
  struct UnderWay {
    StepMetrics metrics;
    double begun_seconds;
  };
  struct Agreement {
    double wait_ms = 0;  // for the other ranks
    StepNews news = {};
    TaskMetrics loss = {};  // of the oldest step, where it was asked for
  };
  Agreement agree(const StepNews& own, bool with_loss);
  RetiredStep take_oldest(const TaskMetrics& loss);

  Replica& replica_;
  Communicator& communicator_;
  std::size_t depth_;
  double begun_seconds_ = 0, retired_seconds_ = 0;  // the newest step; the last one that retired
  std::deque<UnderWay> under_way_;                  // the oldest first
};

}  // namespace retina
