#include "train/saving.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/base/measure.h"
#include "shared/comm/watch/activity.h"

namespace retina {
namespace {

// A change of the automatic interval is worth a line from this factor on.
constexpr double kToldFactor = 1.5;

std::optional<Span> period_of(const TrainOptions& options) {
  if (options.checkpoint_auto()) return std::nullopt;
  return parse_span("checkpoint-every", options.checkpoint_every);
}

}  // namespace

Saving::Saving(const SavingInput& input)
    : input_(input),
      options_(input.options),
      period_(period_of(input.options)),
      writer_(input.run_dir != nullptr ? input.options.scratch : "", input.options.output) {}

void Saving::begin() {
  last_save_seconds_ = now_seconds();
  if (input_.run_dir == nullptr) return;
  Checkpoint checkpoint;
  input_.replica.snapshot(checkpoint);
  input_.run_dir->check_space(tensor_bytes(checkpoint), options_.keep, options_.scratch);
  // What a copy takes is the first guess of what saving costs.
  meter_ = CheckpointMeter(now_seconds() - last_save_seconds_);
  set_interval();
}

void Saving::continue_from(const JsonView& trainer) {
  saved_step_ = trainer.at("step").as_int();
  std::string& fingerprint = input_.validation_fingerprint;
  if (fingerprint.empty() && trainer.has(kValidationKey)) {
    fingerprint = trainer.at(kValidationKey).as_string();
  }
}

// However slow the disk is: the others know that this rank writes.
void Saving::finish() {
  const PhaseScope phase(input_.communicator.activity(), Phase::kCheckpointWrite);
  writer_.finish();
}

void Saving::set_interval() {
  if (period_) return;
  const CheckpointCost cost{.lost_s = meter_.lost_s(), .write_s = write_s_};
  interval_s_ = checkpoint_interval_s(cost, parse_duration_s("mtbf", options_.mtbf));
  if (interval_s_ < told_interval_s_ * kToldFactor &&
      told_interval_s_ < interval_s_ * kToldFactor) {
    return;
  }
  told_interval_s_ = interval_s_;
  log_info("checkpoints every ", fixed(interval_s_, 1), " s: one costs training ",
           fixed(cost.lost_s, 3), " s and is written in ", fixed(cost.write_s, 1),
           " s; failures every ", options_.mtbf);
}

void Saving::add_step(double seconds) {
  const bool writing = writer_.is_writing();
  if (!writing) writer_.finish();
  meter_.add_step(seconds, writing || was_writing_);
  was_writing_ = writing;
}

bool Saving::is_due(std::int64_t step, bool epoch_end) const {
  if (!period_) return epoch_end;
  switch (period_->unit) {
    case Span::Unit::kMinutes:
      return epoch_end;
    case Span::Unit::kSteps:
      return epoch_end || step % std::max<std::int64_t>(1, std::llround(period_->count)) == 0;
    case Span::Unit::kEpochs:
      break;
  }
  const double steps = period_->count * static_cast<double>(input_.steps_per_epoch);
  return step % std::max<std::int64_t>(1, std::llround(steps)) == 0;
}

bool Saving::is_due_by_clock() const {
  const double since_s = now_seconds() - last_save_seconds_;
  if (!period_) return options_.writes() && since_s >= interval_s_;
  return period_->unit == Span::Unit::kMinutes && since_s >= period_->count * 60;
}

void Saving::save(const SavePoint& point, MetricsLog* log) {
  const PhaseScope phase(input_.communicator.activity(), Phase::kCheckpointWrite);
  const double start_s = now_seconds();
  if (!point.epoch_end) input_.replica.average_statistics();
  saved_step_ = point.step;
  last_save_seconds_ = start_s;
  if (input_.run_dir == nullptr) return;
  write(point, *log);
  const double stall_s = now_seconds() - start_s;
  stall_ms_ += stall_s * 1e3;
  was_writing_ = true;
  meter_.add_stall(stall_s);
  set_interval();
}

RunPoint Saving::name_of(const SavePoint& point) const {
  const std::int64_t epoch_steps = input_.steps_per_epoch;
  return {.step = point.step,
          .epoch = point.epoch_end ? point.step / epoch_steps : (point.step - 1) / epoch_steps + 1,
          .epoch_end = point.epoch_end,
          .ap = point.ap};
}

void Saving::write(const SavePoint& point, MetricsLog& log) {
  const Checkpoint checkpoint = checkpoint_of(point);
  log.sync();
  input_.run_dir->check_present();
  // A run that --steps ends finds its last checkpoint under its step, on an epoch's border too.
  std::vector<RunPoint> names{name_of(point)};
  if (point.epoch_end && options_.steps && point.step == input_.total_steps) {
    names.push_back(names.front());
    names.back().epoch_end = false;
  }
  for (const RunPoint& named : names) {
    const std::string file = checkpoint_name(named);
    writer_.start(input_.run_dir->path(file), checkpoint,
                  [this, file, named, start_s = now_seconds()](std::uint64_t hash) {
                    input_.run_dir->record(
                        {.file = file, .step = named.step, .ap = named.ap, .xxh3 = hex64(hash)},
                        options_.keep);
                    write_s_ = now_seconds() - start_s;
                  });
  }
}

Checkpoint Saving::checkpoint_of(const SavePoint& point) const {
  Checkpoint checkpoint;
  input_.replica.snapshot(checkpoint);
  checkpoint.trainer_json = trainer_json(point);
  JsonWriter config;
  config.begin_object().key("model").raw(input_.replica.model().config().to_json());
  config.key("train").begin_object();
  for (const auto& option : input_.effective_options) config.key(option.name).raw(option.json);
  checkpoint.config_json = config.end_object().end_object().text();
  checkpoint.categories = input_.train.categories;
  return checkpoint;
}

std::string Saving::trainer_json(const SavePoint& point) const {
  const RunPoint name = name_of(point);
  JsonWriter json;
  json.begin_object()
      .field("step", point.step)
      .field("epoch", name.epoch)
      .field("epoch_closed", point.epoch_closed)
      .field("samples_seen", point.samples_seen)
      .field("seed", options_.seed)
      .field("images_per_step", options_.images_per_step)
      .field("steps_per_epoch", input_.steps_per_epoch)
      .field("train_fingerprint", input_.train.fingerprint)
      .field("lr", point.pacing.learning_rate(point.step))
      .field("lr_schedule", options_.lr_schedule)
      .field("base_lr", options_.base_lr())
      .field("effective_lr", options_.effective_lr())
      .field("total_steps", input_.total_steps);
  if (!input_.validation_fingerprint.empty()) {
    json.field(kValidationKey, input_.validation_fingerprint);
  }
  if (name.ap) json.field("ap", *name.ap);
  json.key("left_out_steps").raw(point.rollback.to_json());
  json.key("pacing").raw(point.pacing.to_json());
  return json.end_object().text();
}

}  // namespace retina
