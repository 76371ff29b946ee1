// Decisions that depend on the progress of training: the learning rate once a metric plateaus, and
// an early end. Every rank feeds it the same metrics, so all decide the same; its state is in the
// checkpoint.
#pragma once

#include <cstdint>
#include <optional>

#include "train/schedule/schedule.h"

namespace retina {

// Detects that a metric has stopped improving: the rule of Keras' ReduceLROnPlateau and
// EarlyStopping callbacks.
struct PlateauOptions {
  bool higher_is_better = false;
  int patience = 2;         // values in a row without improvement that make a plateau
  double min_delta = 1e-4;  // an improvement is larger than this
};

class Plateau {
 public:
  struct State {
    std::optional<double> best = {};
    std::int64_t waited = 0;  // values since the last improvement or plateau

    friend bool operator==(const State&, const State&) = default;
  };

  explicit Plateau(const PlateauOptions& options) : options_(options) {}

  // Adds the next value; returns true when it completes a plateau, after which waiting starts over
  // (the best value stays). A value that is not a number is not an improvement.
  bool observe(double value);

  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  PlateauOptions options_;
  State state_;
};

// kAp, kTop1: metrics of validations, by the run's task.
enum class PlateauMetric { kLoss, kAp, kTop1 };

inline const Choices<PlateauMetric> kPlateauMetrics = {
    {"loss", PlateauMetric::kLoss}, {"ap", PlateauMetric::kAp}, {"top1", PlateauMetric::kTop1}};

struct AdaptiveScheduleOptions {
  ScheduleOptions schedule = {};
  // kPlateau: the rate is multiplied by schedule.drop_factor when this metric plateaus, compared at
  // epoch ends (the epoch's mean training loss) or at validations.
  PlateauMetric plateau_metric = PlateauMetric::kLoss;
  int plateau_patience = 2;
  int early_stop_patience = 0;  // validations without a better metric that end the run; 0: never
  double stop_at = 0;           // the metric of a validation that ends the run; 0: none
};

// The part of the schedule that a checkpoint holds.
struct AdaptiveScheduleState {
  Plateau::State plateau = {}, early_stop = {};
  std::int64_t drops = 0;  // drops of the learning rate at plateaus
  double loss_sum = 0;     // sum over the epoch so far
  std::int64_t loss_images = 0;
  bool ended_early = false;

  friend bool operator==(const AdaptiveScheduleState&, const AdaptiveScheduleState&) = default;
};

class AdaptiveSchedule {
 public:
  explicit AdaptiveSchedule(const AdaptiveScheduleOptions& options);

  // Replaces the schedule; what has been decided by metrics stays.
  void set_schedule(const ScheduleOptions& schedule) { options_.schedule = schedule; }

  // Returns the rate for update number `step`, counted from 0.
  double learning_rate(std::int64_t step) const;

  // Adds the loss of a step, a mean over `image_count` images.
  void add_loss(double loss, std::int64_t image_count);
  // Ends an epoch and compares its mean loss. Returns true when the learning rate dropped.
  bool close_epoch();
  // Compares a validation by its AP or top-1 accuracy; none (nan) is not an improvement. Returns
  // true when the learning rate dropped.
  bool add_validation(double metric);
  // Returns whether this metric reaches the goal.
  bool reaches(double metric) const { return options_.stop_at > 0 && metric >= options_.stop_at; }

  // Returns whether the run ended by early stop, or by the goal, which another start may have set
  // higher.
  bool ended_early() const { return state_.ended_early || has_reached_; }

  AdaptiveScheduleState state() const;
  // Restores the state. `validated` is the metric of the validation at the place where the run
  // continues.
  void restore(const AdaptiveScheduleState& state, std::optional<double> validated = {});

 private:
  bool drop(bool on_plateau);
  AdaptiveScheduleOptions options_;
  Plateau plateau_, early_stop_;
  AdaptiveScheduleState state_;  // except for the plateaus
  bool has_reached_ = false;     // reached the goal
};

}  // namespace retina
