#include "train/schedule/adaptive_schedule.h"

#include <cmath>

namespace retina {
namespace {

// Any gain in AP counts; a loss must fall by more than noise (Keras' default).
constexpr double kLossDelta = 1e-4;

PlateauOptions plateau_options(const AdaptiveScheduleOptions& options) {
  const bool validated = options.plateau_metric != PlateauMetric::kLoss;
  return {.higher_is_better = validated,
          .patience = options.plateau_patience,
          .min_delta = validated ? 0 : kLossDelta};
}

}  // namespace

bool Plateau::observe(double value) {
  const double gain =
      options_.higher_is_better ? value - state_.best.value_or(0) : state_.best.value_or(0) - value;
  const bool first = !state_.best && value == value;
  if (first || gain > options_.min_delta) {
    state_ = {.best = value, .waited = 0};
    return false;
  }
  if (++state_.waited < options_.patience) return false;
  state_.waited = 0;
  return true;
}

AdaptiveSchedule::AdaptiveSchedule(const AdaptiveScheduleOptions& options)
    : options_(options),
      plateau_(plateau_options(options)),
      early_stop_(
          {.higher_is_better = true, .patience = options.early_stop_patience, .min_delta = 0}) {}

double AdaptiveSchedule::learning_rate(std::int64_t step) const {
  return retina::learning_rate(options_.schedule, step) *
         std::pow(options_.schedule.drop_factor, static_cast<double>(state_.drops));
}

void AdaptiveSchedule::add_loss(double loss, std::int64_t image_count) {
  state_.loss_sum += loss * static_cast<double>(image_count);
  state_.loss_images += image_count;
}

bool AdaptiveSchedule::drop(bool on_plateau) {
  const bool drops = on_plateau && options_.schedule.kind == ScheduleKind::kPlateau;
  state_.drops += drops ? 1 : 0;
  return drops;
}

bool AdaptiveSchedule::close_epoch() {
  if (state_.loss_images == 0) return false;
  const double mean = state_.loss_sum / static_cast<double>(state_.loss_images);
  state_.loss_sum = 0;
  state_.loss_images = 0;
  return options_.plateau_metric == PlateauMetric::kLoss && drop(plateau_.observe(mean));
}

bool AdaptiveSchedule::add_validation(double metric) {
  if (options_.early_stop_patience > 0 && early_stop_.observe(metric)) state_.ended_early = true;
  has_reached_ = reaches(metric);
  return options_.plateau_metric != PlateauMetric::kLoss && drop(plateau_.observe(metric));
}

AdaptiveScheduleState AdaptiveSchedule::state() const {
  AdaptiveScheduleState state = state_;
  state.plateau = plateau_.state();
  state.early_stop = early_stop_.state();
  return state;
}

void AdaptiveSchedule::restore(const AdaptiveScheduleState& state,
                               std::optional<double> validated) {
  state_ = state;
  has_reached_ = validated && reaches(*validated);
  plateau_.restore(state.plateau);
  early_stop_.restore(state.early_stop);
}

}  // namespace retina
