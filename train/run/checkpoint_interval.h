// How often to save: often enough that a failure costs little work, seldom enough that saving costs
// little time.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

namespace retina {

// The share of the training time that saving may take at most.
inline constexpr double kMostCheckpointShare = 0.01;

// The time between checkpoints that wastes least when one costs `cost_s` and failures come every
// `mtbf_s` on average: Young 1974, t = sqrt(2 c m), with the higher-order terms of Daly 2006, eq.
// 37: t = sqrt(2 c m) (1 + sqrt(c / 2m) / 3 + (c / 2m) / 9) - c for c < 2m, else m.
double daly_interval_s(double cost_s, double mtbf_s);

struct CheckpointCost {
  double lost_s = 0;   // what training loses to one: standing still, and slower steps meanwhile
  double write_s = 0;  // until it lies safely in the run's folder
};

// Daly's interval, but long enough that saving takes at most kMostCheckpointShare of the time
// (unless failures come more often than that), and that a checkpoint is written before the next
// begins.
double checkpoint_interval_s(const CheckpointCost& cost, double mtbf_s);

// "90s", "30min", "4h" or "2days" in seconds. Throws Error{kUsage} naming `option`.
double parse_duration_s(const std::string& option, const std::string& text);

// Measures what training loses to checkpoints, from the times of its steps.
class CheckpointMeter {
 public:
  // A first guess, until one has been made.
  explicit CheckpointMeter(double guess_s = 0) : guess_s_(guess_s) {}

  // A step took this long; `writing`: a checkpoint was being written meanwhile. Such steps are
  // compared with the median of the undisturbed ones.
  void add_step(double seconds, bool writing);
  // Training stood still for this long to save.
  void add_stall(double seconds);

  // The median of the latest checkpoints.
  double lost_s() const;

 private:
  struct Lost {
    double stall_s = 0, slower_s = 0;
  };
  double guess_s_;
  std::deque<double> quiet_steps_s_;
  std::deque<Lost> lost_;  // the newest at the end
};

}  // namespace retina
