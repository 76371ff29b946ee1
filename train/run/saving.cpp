#include "train/run/saving.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/base/measure.h"
#include "shared/comm/activity.h"

namespace retina {
namespace {

// Factor by which the automatic interval must change to be logged again.
constexpr double kLoggedFactor = 1.5;

// Writes a checkpoint to `path`, by way of `build_path` on the scratch folder; without one both are
// the same. Returns its hash.
std::uint64_t write_checkpoint(const std::string& path, const std::string& build_path,
                               const Checkpoint& checkpoint) {
  const std::uint64_t hash = save_checkpoint(build_path, checkpoint);
  if (build_path == path) return hash;
  deliver_file(build_path, path);
  remove_file(build_path);
  return hash;
}

}  // namespace

Saving::Saving(const SavingInput& input)
    : input_(input),
      scratch_(input.run_dir != nullptr ? input.options.scratch : "", input.options.folder) {}

void Saving::finish_or_warn() {
  try {
    wait();
  } catch (const std::exception& error) {
    log_warning("the last checkpoint was not written: ", error.what());
  }
}

bool Saving::is_writing() const {
  return under_way_.valid() &&
         under_way_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

void Saving::wait() {
  if (under_way_.valid()) under_way_.get();
}

void Saving::begin() {
  last_save_seconds_ = now_seconds();
  if (input_.run_dir == nullptr) return;
  Checkpoint checkpoint;
  input_.replica.snapshot(checkpoint);
  input_.run_dir->check_space(static_cast<double>(input_.replica.snapshot_bytes()),
                              input_.options.keep, input_.options.scratch);
  // The time of a copy is the first guess of the cost of saving.
  meter_ = CheckpointMeter(now_seconds() - last_save_seconds_);
  set_interval();
}

void Saving::continue_from(const RunState& state) {
  saved_step_ = state.step;
  std::string& fingerprint = input_.facts.validation_fingerprint;
  if (fingerprint.empty()) fingerprint = state.facts.validation_fingerprint;
}

// The phase tells the other ranks that this rank is writing, however slow the disk is.
void Saving::finish() {
  const PhaseScope phase(input_.communicator.activity(), Phase::kCheckpointWrite);
  wait();
}

void Saving::set_interval() {
  if (input_.options.period) return;
  const CheckpointCost cost{.lost_s = meter_.lost_s(), .write_s = write_s_};
  interval_s_ =
      checkpoint_interval_s(cost, parse_duration_s("--checkpoint-every mtbf", input_.options.mtbf));
  if (interval_s_ < logged_interval_s_ * kLoggedFactor &&
      logged_interval_s_ < interval_s_ * kLoggedFactor) {
    return;
  }
  logged_interval_s_ = interval_s_;
  log_info("checkpoint interval ", fixed(interval_s_, 1), " s: each stalls training for ",
           fixed(cost.lost_s, 3), " s and takes ", fixed(cost.write_s, 1),
           " s to write; assumed mtbf=", input_.options.mtbf);
}

void Saving::add_step(double seconds) {
  const bool writing = is_writing();
  if (!writing) wait();
  meter_.add_step(seconds, writing || was_writing_);
  was_writing_ = writing;
}

bool Saving::is_due(std::int64_t step, bool epoch_end) const {
  if (!input_.options.period) return epoch_end;
  switch (input_.options.period->unit) {
    case Span::Unit::kMinutes:
      return epoch_end;
    case Span::Unit::kSteps:
      return epoch_end ||
             step % std::max<std::int64_t>(1, std::llround(input_.options.period->count)) == 0;
    case Span::Unit::kEpochs:
    case Span::Unit::kRun:  // not a period
      break;
  }
  const double steps =
      input_.options.period->count * static_cast<double>(input_.facts.steps_per_epoch);
  return step % std::max<std::int64_t>(1, std::llround(steps)) == 0;
}

bool Saving::is_due_by_clock() const {
  const double since_s = now_seconds() - last_save_seconds_;
  if (!input_.options.period) return input_.options.writes && since_s >= interval_s_;
  return input_.options.period->unit == Span::Unit::kMinutes &&
         since_s >= input_.options.period->count * 60;
}

void Saving::save(const RunState& state, const std::function<void()>& sync_log) {
  const PhaseScope phase(input_.communicator.activity(), Phase::kCheckpointWrite);
  const double start_s = now_seconds();
  if (!ends_epoch(state)) input_.replica.average_statistics();
  saved_step_ = state.step;
  last_save_seconds_ = start_s;
  if (input_.run_dir == nullptr) return;
  sync_log();
  input_.run_dir->check_present();
  write(state);
  const double stall_s = now_seconds() - start_s;
  stall_ms_ += stall_s * 1e3;
  was_writing_ = true;
  meter_.add_stall(stall_s);
  set_interval();
}

bool Saving::ends_epoch(const RunState& state) const {
  return state.epoch_closed && state.step > 0 && state.step % input_.facts.steps_per_epoch == 0;
}

RunPoint Saving::name_of(const RunState& state) const {
  const bool is_last = input_.options.names_last_step && state.step == input_.facts.total_steps;
  return {.step = state.step,
          .epoch = state.epoch,
          .epoch_end = ends_epoch(state) && !is_last,
          .ap = state.ap};
}

void Saving::write(const RunState& state) {
  const RunPoint point = name_of(state);
  const std::string file = checkpoint_name(point), path = input_.run_dir->path(file);
  wait();
  under_way_ = std::async(
      std::launch::async, [this, file, path, point, build_path = scratch_.build_path(path),
                           content = checkpoint_of(state), start_s = now_seconds()] {
        as_io_error([&] {
          const std::uint64_t hash = write_checkpoint(path, build_path, content);
          input_.run_dir->record(
              {.file = file, .step = point.step, .ap = point.ap, .xxh3 = hex64(hash)},
              input_.options.keep);
        });
        write_s_ = now_seconds() - start_s;
      });
}

Checkpoint Saving::checkpoint_of(const RunState& state) const {
  Checkpoint checkpoint;
  input_.replica.snapshot(checkpoint);
  RunState whole = state;
  whole.facts = input_.facts;
  checkpoint.trainer_json = whole.to_json();
  JsonWriter config;
  config.begin_object().key("model").raw(input_.replica.network().config().to_json());
  config.key("train").begin_object();
  for (const auto& option : input_.effective_options) config.key(option.name).raw(option.json);
  config.end_object();
  if (input_.facts.tile_px > 0) config.field("tile_px", input_.facts.tile_px);
  checkpoint.config_json = config.end_object().text();
  checkpoint.categories = input_.categories;
  return checkpoint;
}

}  // namespace retina
