// Decides how often to save: often enough that a failure costs little work, seldom enough that
// saving costs little time.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

namespace retina {

// The largest share of the training time that saving may take.
inline constexpr double kMostCheckpointShare = 0.01;

// Returns the time between checkpoints that wastes least when one costs `cost_s` and failures come
// every `mtbf_s` on average: Young 1974, t = sqrt(2 c m), with the higher-order terms of Daly 2006,
// eq. 37: t = sqrt(2 c m) (1 + sqrt(c / 2m) / 3 + (c / 2m) / 9) - c for c < 2m, else m.
double daly_interval_s(double cost_s, double mtbf_s);

struct CheckpointCost {
  double lost_s = 0;   // training time: the pause, and slower steps during the write
  double write_s = 0;  // time until it is safe in the run's folder
};

// Returns Daly's interval, but long enough that saving takes at most kMostCheckpointShare of the
// time (unless failures come more often than that), and that a checkpoint is written before the
// next begins.
double checkpoint_interval_s(const CheckpointCost& cost, double mtbf_s);

// Parses "90s", "30min", "4h" or "2days"; returns seconds. Throws Error{kUsage} naming `option`.
double parse_duration_s(const std::string& option, const std::string& text);

// Measures the training time that checkpoints cost, from the times of the steps.
class CheckpointMeter {
 public:
  // `guess_s` is used until a checkpoint has been made.
  explicit CheckpointMeter(double guess_s = 0) : guess_s_(guess_s) {}

  // Adds the time of a step; `writing`: a checkpoint was being written meanwhile. Such steps are
  // compared with the median of the undisturbed ones.
  void add_step(double seconds, bool writing);
  // Adds a pause of training for saving.
  void add_stall(double seconds);

  // Returns the median of the latest checkpoints.
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
