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
  input_.run_dir->check_space(static_cast<double>(input_.replica.snapshot_bytes()),
                              input_.options.keep, input_.options.scratch);
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

void Saving::check_written() {
  if (!is_writing()) wait();
}

bool Saving::is_due(std::int64_t step, bool epoch_end) const {
  switch (input_.options.period.unit) {
    case Span::Unit::kMinutes:
      return epoch_end;
    case Span::Unit::kSteps:
      return epoch_end ||
             step % std::max<std::int64_t>(1, std::llround(input_.options.period.count)) == 0;
    case Span::Unit::kEpochs:
    case Span::Unit::kRun:  // not a period
      break;
  }
  const double steps =
      input_.options.period.count * static_cast<double>(input_.facts.steps_per_epoch);
  return step % std::max<std::int64_t>(1, std::llround(steps)) == 0;
}

bool Saving::is_due_by_clock() const {
  return input_.options.period.unit == Span::Unit::kMinutes &&
         now_seconds() - last_save_seconds_ >= input_.options.period.count * 60;
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
  stall_ms_ += (now_seconds() - start_s) * 1e3;
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
                           content = checkpoint_of(state)] {
        as_io_error([&] {
          const std::uint64_t hash = write_checkpoint(path, build_path, content);
          input_.run_dir->record(
              {.file = file, .step = point.step, .ap = point.ap, .xxh3 = hex64(hash)},
              input_.options.keep);
        });
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
