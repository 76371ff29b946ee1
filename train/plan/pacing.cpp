#include "train/plan/pacing.h"

#include <cmath>

namespace retina {
namespace {

// Any gain in AP is one; a loss must fall by more than noise (Keras' default).
constexpr double kLossDelta = 1e-4;

void write_state(JsonWriter& json, const char* key, const Stall::State& state) {
  json.key(key).begin_object().key("best");
  if (state.best) {
    json.value(*state.best);
  } else {
    json.null();
  }
  json.field("waited", state.waited).end_object();
}

Stall::State read_state(const JsonView& json) {
  Stall::State state{.waited = json.at("waited").as_int()};
  if (!json.at("best").raw().IsNull()) state.best = json.at("best").as_double();
  return state;
}

StallOptions plateau_options(const PacingOptions& options) {
  const bool ap = options.plateau_figure == PlateauFigure::kAp;
  return {.higher_is_better = ap,
          .patience = options.plateau_patience,
          .min_delta = ap ? 0 : kLossDelta};
}

}  // namespace

Pacing::Pacing(const PacingOptions& options)
    : options_(options),
      plateau_(plateau_options(options)),
      early_stop_(
          {.higher_is_better = true, .patience = options.early_stop_patience, .min_delta = 0}) {}

double Pacing::learning_rate(std::int64_t step) const {
  return retina::learning_rate(options_.schedule, step) *
         std::pow(options_.schedule.drop_factor, static_cast<double>(drops_));
}

void Pacing::add_loss(double loss, std::int64_t image_count) {
  loss_sum_ += loss * static_cast<double>(image_count);
  loss_images_ += image_count;
}

bool Pacing::drop(bool stalled) {
  const bool drops = stalled && options_.schedule.kind == ScheduleKind::kPlateau;
  drops_ += drops ? 1 : 0;
  return drops;
}

bool Pacing::close_epoch() {
  if (loss_images_ == 0) return false;
  const double mean = loss_sum_ / static_cast<double>(loss_images_);
  loss_sum_ = 0;
  loss_images_ = 0;
  return options_.plateau_figure == PlateauFigure::kLoss && drop(plateau_.observe(mean));
}

bool Pacing::add_validation(double ap) {
  if (options_.early_stop_patience > 0 && early_stop_.observe(ap)) ended_early_ = true;
  return options_.plateau_figure == PlateauFigure::kAp && drop(plateau_.observe(ap));
}

std::string Pacing::to_json() const {
  JsonWriter json;
  json.begin_object();
  write_state(json, "plateau", plateau_.state());
  write_state(json, "early_stop", early_stop_.state());
  json.field("drops", drops_)
      .field("loss_sum", loss_sum_)
      .field("loss_images", loss_images_)
      .field("ended_early", ended_early_);
  return json.end_object().text();
}

void Pacing::restore(const JsonView& json) {
  plateau_.restore(read_state(json.at("plateau")));
  early_stop_.restore(read_state(json.at("early_stop")));
  drops_ = json.at("drops").as_int();
  loss_sum_ = json.at("loss_sum").as_double();
  loss_images_ = json.at("loss_images").as_int();
  ended_early_ = json.at("ended_early").as_bool();
}

}  // namespace retina
