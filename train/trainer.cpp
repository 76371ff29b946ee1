#include "train/trainer.h"

#include <sys/resource.h>

#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/log.h"
#include "shared/base/memory.h"
#include "shared/base/signals.h"
#include "shared/comm/activity.h"
#include "shared/model/device.h"
#include "shared/shard/damaged.h"
#include "train/plan/image_names.h"

namespace retina {
namespace {

// Seconds to wait for images after a stop signal: schedulers kill half a minute after it. An image
// that arrives in time lets the step end.
constexpr double kStopSeconds = 5;

std::int64_t peak_resident_bytes() {
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace

Trainer::Trainer(TrainingRun& run)
    : run_(run),
      state_(run.state),
      replica_(run.replica),
      activity_(run.communicator.activity()),
      pipeline_(run.replica, run.communicator, run.job.device.is_cuda() ? 1 : 0),
      damaged_records_(run.job.data->plan->index(), run.options.data.max_bad_fraction) {
  run.monitor.begin_reduction(replica_.gradients());
}

int Trainer::run() {
  run_.begin();
  std::unique_ptr<BatchLoader> loader = load_steps(run_.loading());
  bool stop = !run_.finish_interrupted_epoch();
  while (!stop && !state_.at_end()) {
    StepOutcome outcome;
    if (state_.rollback.skips(state_.step())) {
      outcome.is_finite = drain();
      state_.skip_step();
      outcome.save_due = run_.saving.is_due(state_.step(), state_.at_epoch_end());
    } else {
      const StepMetrics begun = begin_step();
      StepMetrics step = begun;
      Gradient gradient;
      // When a rank runs out of memory, all repeat the same images, fewer of them at once.
      while ((gradient = compute_gradient(*loader, step)) == Gradient::kWithoutMemory) {
        loader.reset();
        loader = load_steps(run_.loading());
        step = begun;
      }
      if (gradient == Gradient::kStopped) {
        outcome.is_finite = drain();
        stop = outcome.is_finite;
        if (stop) break;
      } else {
        update(step);
        outcome = end_step(step);  // on a GPU is_finite is of the previous step
      }
    }
    // After a loss that is not finite training returns to the last checkpoint and goes on without
    // that step.
    if (!outcome.is_finite) {
      loader.reset();
      pipeline_.clear();
      run_.go_back();
      loader = load_steps(run_.loading());
      stop = !run_.finish_interrupted_epoch();
      continue;
    }
    run_.replica_checks.after_step(state_.step(), replica_, run_.communicator);
    // A stop takes effect before the epoch's end, whose validation can take long and is made up for
    // later.
    const bool epoch_ends = state_.at_epoch_end() || state_.at_end();
    if (!epoch_ends) state_.close_epoch();
    stop = outcome.stop || (epoch_ends && !run_.finish_epoch());
    if (stop) break;
    if ((epoch_ends || outcome.pace_due) && run_.refit_length()) {
      loader.reset();
      loader = load_steps(run_.loading());
    }
    if (state_.at_end() || outcome.save_due) run_.save();
  }
  run_.end(stop);
  return stop ? exit_code(ErrorKind::kInterrupted) : 0;
}

StepMetrics Trainer::begin_step() {
  const std::int64_t number = state_.step() + 1;
  if (activity_ != nullptr) activity_->set_step(number);
  pipeline_.begin_step();
  step_begin_s_ = now_seconds();
  return {.step = number,
          .epoch = state_.epoch_of(number),
          .task = run_.options.task,
          .ranks = run_.communicator.size()};
}

Trainer::Gradient Trainer::compute_gradient(BatchLoader& loader, StepMetrics& step) {
  const bool may_repeat = run_.can_halve_micro_batch();
  replica_.begin_step();
  Gradient gradient = Gradient::kThere;
  std::string problem;  // this rank's
  try {
    if (!add_micro_batches(loader, step)) gradient = Gradient::kStopped;
  } catch (const std::exception& error) {
    problem = out_of_memory(error).value_or("");
    if (problem.empty()) throw;
    if (!may_repeat) run_.fail_without_memory(step.step, problem);
    gradient = Gradient::kWithoutMemory;
  }
  // A rank that failed sums what it has: the others may be in the middle of the sum, and learn
  // afterwards that it is not the gradient.
  if (gradient == Gradient::kThere || run_.communicator.size() > 1) reduce(step);
  run_.communicator.label("agreement on the gradient");
  gradient =
      static_cast<Gradient>(run_.communicator.all_reduce_max(static_cast<std::int64_t>(gradient)));
  if (gradient == Gradient::kThere) return gradient;
  replica_.drop_step();
  if (gradient == Gradient::kStopped) return gradient;
  release_freed_memory();
  run_.halve_micro_batch(step.step, problem);
  return gradient;
}

// Sums the gradients of the micro-batches. During the last backward, buckets of gradients already
// leave for the other ranks.
bool Trainer::add_micro_batches(BatchLoader& loader, StepMetrics& step) {
  for (bool is_last = false; !is_last;) {
    const std::optional<Batch> batch = load(loader, step);
    std::int64_t stopped = batch ? 0 : 1;
    // A forward pass with --sync-bn would wait for a rank that has stopped.
    if (run_.options.model.sync_bn) stopped = run_.communicator.all_reduce_max(stopped);
    if (stopped != 0) return false;
    is_last = batch->part.is_last_micro_batch;
    const TaskOutputs outputs = replica_.forward(*batch);
    const TaskLoss loss = replica_.loss(outputs, *batch);
    replica_.backward(loss, is_last);
  }
  return true;
}

std::optional<Batch> Trainer::load(BatchLoader& loader, StepMetrics& step) {
  const PhaseScope phase(activity_, Phase::kDataWait);
  Stopwatch wait;
  std::optional<double> stopped_s;
  // Where a micro-batch takes long, a stop ends the step before the next one.
  if (stop_signal() != 0 && now_seconds() - step_begin_s_ > kStopSeconds) return std::nullopt;
  std::optional<Batch> batch = loader.next([&] {
    if (stop_signal() != 0 && !stopped_s) stopped_s = now_seconds();
    return stopped_s && now_seconds() - *stopped_s > kStopSeconds;
  });
  if (!batch && stop_signal() != 0) return batch;
  RETINA_CHECK(batch.has_value() && batch->part.step == state_.step());
  step.data_wait_ms += wait.lap_ms();
  log_debug("step ", step.step, ": trains on ", image_names(*batch));
  damaged_records_.check(*batch);
  for (const Sample& sample : batch->samples) {
    if (sample.replaced && sample.slot.counts) ++step.replaced_images;
  }
  step.images = batch->part.real_image_count;
  step.images_own += static_cast<int>(batch->samples.size());
  return batch;
}

void Trainer::reduce(StepMetrics& step) {
  const PhaseScope phase(activity_, Phase::kReduce);
  Stopwatch wait;
  replica_.all_reduce();
  step.exposed_comm_ms = wait.lap_ms() + replica_.take_sync_wait_ms();
  step.reduce = replica_.reduce_cost();
}

void Trainer::update(StepMetrics& step) {
  const PhaseScope phase(activity_, Phase::kUpdate);
  run_.monitor.add_reduction(step.step, replica_.gradients());
  step.learning_rate = state_.learning_rate();
  replica_.update(step.learning_rate, step.step);
  state_.make_step(step.images);
}

Trainer::StepOutcome Trainer::end_step(StepMetrics& step) {
  const bool is_root = run_.communicator.is_root();
  step.checkpoint_ms = run_.saving.take_stall_ms();
  step.memory_bytes = peak_resident_bytes();
  step.micro_batch = run_.micro_batch();
  step.device_memory_bytes = peak_device_bytes(run_.job.device);
  const auto count = [](bool has_event) { return has_event ? 1.0 : 0.0; };
  const auto [events, oldest] =
      pipeline_.launch(step, {.stop = count(stop_signal() != 0),
                              .save = count(is_root && run_.saving.is_due_by_clock()),
                              .pace = count(is_root && run_.is_pace_due()),
                              .replaced_images = static_cast<double>(step.replaced_images),
                              .found_damage = count(damaged_records_.has_new())});
  if (events.found_damage > 0) {
    const std::string problem = damaged_records_.agree(run_.communicator);
    if (!problem.empty()) run_.fail({ErrorKind::kData, problem, kDamagedHint});
  }
  // No step is under way when a checkpoint, a new length, a stop or an epoch's end follows.
  StepOutcome outcome = {
      .stop = events.stop > 0,
      .save_due = events.save > 0 || run_.saving.is_due(state_.step(), state_.at_epoch_end()),
      .pace_due = events.pace > 0};
  if (oldest) outcome.is_finite = ingest(*oldest);
  const bool drains = outcome.stop || outcome.save_due || outcome.pace_due ||
                      state_.at_epoch_end() || state_.at_end();
  if (drains && outcome.is_finite) outcome.is_finite = drain();
  if (is_root && !outcome.stop) run_.saving.check_written();
  return outcome;
}

bool Trainer::ingest(const RetiredStep& step) {
  if (!step.problem.empty()) {
    run_.skip(step.metrics, step.problem);
    return false;
  }
  state_.schedule.add_loss(step.metrics.loss(), step.metrics.images);
  if (step.metrics.made_update()) {
    state_.rollback.made_step();
  } else if (run_.communicator.is_root()) {
    log_info("step ", step.metrics.step, ": the gradient overflowed fp16 with a loss scale of ",
             shortest(step.metrics.loss_scale), ": no update, the next step's scale is half of it");
  }
  run_.monitor.add(step.metrics);
  return true;
}

bool Trainer::drain() {
  while (const std::optional<RetiredStep> step = pipeline_.retire()) {
    if (!ingest(*step)) return false;
  }
  return true;
}

}  // namespace retina
