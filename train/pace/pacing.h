// What the course of training decides: the learning rate once a figure stalls, and an early
// end. Every rank feeds it the same figures, so all decide the same; its state is in the
// checkpoint.
#pragma once

#include <cstdint>
#include <optional>

#include "train/pace/schedule.h"
#include "train/pace/stall.h"

namespace retina {

// kAp, kTop1: of validations, by the run's task.
enum class PlateauFigure { kLoss, kAp, kTop1 };

inline const Choices<PlateauFigure> kPlateauFigures = {
    {"loss", PlateauFigure::kLoss}, {"ap", PlateauFigure::kAp}, {"top1", PlateauFigure::kTop1}};

struct PacingOptions {
  ScheduleOptions schedule = {};
  // kPlateau: the rate is multiplied by schedule.drop_factor when this figure stalls, judged at
  // epoch ends (the epoch's mean training loss) or at validations.
  PlateauFigure plateau_figure = PlateauFigure::kLoss;
  int plateau_patience = 2;
  int early_stop_patience = 0;  // validations without a better figure that end the run; 0: never
};

// What a checkpoint has of it.
struct PacingState {
  Stall::State plateau = {}, early_stop = {};
  std::int64_t drops = 0;  // of the learning rate, by the plateau
  double loss_sum = 0;     // of the epoch so far
  std::int64_t loss_images = 0;
  bool ended_early = false;

  friend bool operator==(const PacingState&, const PacingState&) = default;
};

class Pacing {
 public:
  explicit Pacing(const PacingOptions& options);

  // Rate for update number `step`, counted from 0.
  double learning_rate(std::int64_t step) const;

  // The loss of a step, a mean over `image_count` images.
  void add_loss(double loss, std::int64_t image_count);
  // Ends an epoch: its mean loss is judged. Returns true when the learning rate dropped.
  bool close_epoch();
  // Judges a validation by its AP or top-1 accuracy; none (nan) is not an improvement. Returns true
  // when the learning rate dropped.
  bool add_validation(double figure);

  bool ended_early() const { return state_.ended_early; }

  PacingState state() const;
  void restore(const PacingState& state);

 private:
  bool drop(bool stalled);
  PacingOptions options_;
  Stall plateau_, early_stop_;
  PacingState state_;  // except for the stalls
};

}  // namespace retina
