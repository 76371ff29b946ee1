#include "train/run/run_state.h"

#include "shared/base/json.h"

namespace retina {
namespace {

void write_plateau(JsonWriter& json, const char* key, const Plateau::State& state) {
  json.key(key).begin_object().key("best");
  state.best ? json.value(*state.best) : json.null();
  json.field("waited", state.waited).end_object();
}

Plateau::State read_plateau(const JsonView& json) {
  Plateau::State state{.waited = json.at("waited").as_int()};
  if (!json.at("best").raw().IsNull()) state.best = json.at("best").as_double();
  return state;
}

void write_schedule(JsonWriter& json, const AdaptiveScheduleState& adaptive_schedule) {
  json.key("pacing").begin_object();
  write_plateau(json, "plateau", adaptive_schedule.plateau);
  write_plateau(json, "early_stop", adaptive_schedule.early_stop);
  json.field("drops", adaptive_schedule.drops)
      .field("loss_sum", adaptive_schedule.loss_sum)
      .field("loss_images", adaptive_schedule.loss_images)
      .field("ended_early", adaptive_schedule.ended_early)
      .end_object();
}

AdaptiveScheduleState read_schedule(const JsonView& json) {
  return {.plateau = read_plateau(json.at("plateau")),
          .early_stop = read_plateau(json.at("early_stop")),
          .drops = json.at("drops").as_int(),
          .loss_sum = json.at("loss_sum").as_double(),
          .loss_images = json.at("loss_images").as_int(),
          .ended_early = json.at("ended_early").as_bool()};
}

}  // namespace

std::string RunState::to_json() const {
  JsonWriter json;
  json.begin_object()
      .field("step", step)
      .field("epoch", epoch)
      .field("epoch_closed", epoch_closed)
      .field("samples_seen", samples_seen)
      .field("seed", facts.seed)
      .field("images_per_step", facts.images_per_step)
      .field("steps_per_epoch", facts.steps_per_epoch)
      .field("train_fingerprint", facts.train_fingerprint)
      .field("lr", learning_rate)
      .field("lr_schedule", facts.lr_schedule)
      .field("base_lr", facts.base_lr)
      .field("effective_lr", facts.effective_lr)
      .field("total_steps", facts.total_steps);
  if (!facts.validation_fingerprint.empty()) {
    json.field("validation_fingerprint", facts.validation_fingerprint);
  }
  if (ap) json.field("ap", *ap);
  json.key("left_out_steps").begin_array();
  for (const std::int64_t skipped : skipped_steps) json.value(skipped + 1);  // as in metrics.jsonl
  json.end_array();
  write_schedule(json, adaptive_schedule);
  return json.end_object().text();
}

RunState RunState::parse(const std::string& json, const std::string& name) {
  const JsonFile file = JsonFile::parse(json, name);
  const JsonView root = file.root();
  RunState state{.step = root.at("step").as_int(),
                 .epoch = root.at("epoch").as_int(),
                 .samples_seen = root.at("samples_seen").as_int(),
                 .epoch_closed = root.at("epoch_closed").as_bool(),
                 .adaptive_schedule = read_schedule(root.at("pacing")),
                 .facts = {.train_fingerprint = root.at("train_fingerprint").as_string(),
                           .total_steps = root.at("total_steps").as_int()}};
  if (root.has("validation_fingerprint")) {
    state.facts.validation_fingerprint = root.at("validation_fingerprint").as_string();
  }
  if (root.has("ap")) state.ap = root.at("ap").as_double();
  const JsonView skipped = root.at("left_out_steps");
  for (std::size_t i = 0; i < skipped.size(); ++i) {
    state.skipped_steps.insert(skipped.at(i).as_int() - 1);
  }
  return state;
}

}  // namespace retina
