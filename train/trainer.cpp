#include "train/trainer.h"

#include <sys/resource.h>

#include <cmath>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/log.h"
#include "shared/base/measure.h"
#include "shared/base/signals.h"
#include "shared/comm/activity.h"
#include "shared/job/rank_program.h"
#include "shared/model/device.h"
#include "shared/shard/damaged.h"
#include "train/run/initial_weights.h"
#include "train/run/start_point.h"

namespace retina {
namespace {

constexpr std::size_t kReportImages = 8;

std::int64_t peak_resident_bytes() {
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

ReplicaOptions replica_options(const TrainerInput& input) {
  const TrainOptions& options = input.options;
  BucketOptions buckets = options.bucket_options();
  if (input.run_dir != nullptr) buckets.stored = input.run_dir->read_buckets();
  return {.task = {.model = options.model_config(input.train.class_count()),
                   .loss = options.loss_options(),
                   .label_smoothing = options.label_smoothing,
                   .seed = options.seed,
                   .precision = options.precision},
          .optimizer = options.optimizer_options(),
          .buckets = buckets,
          .sync_bn = options.sync_bn,
          .trainable_layers = options.layers_to_train(),
          .device = input.device,
          .tf32 = options.tf32,
          .clip_norm = options.clip_norm,
          .ema = options.ema};
}

RunFacts run_facts(const TrainerInput& input, std::int64_t steps_per_epoch,
                   std::int64_t total_steps) {
  const TrainOptions& options = input.options;
  return {.train_fingerprint = input.train.fingerprint,
          .validation_fingerprint = input.validation_fingerprint,
          .seed = options.seed,
          .images_per_step = options.step_images(),
          .steps_per_epoch = steps_per_epoch,
          .total_steps = total_steps,
          .base_lr = options.base_lr(),
          .effective_lr = options.effective_lr(),
          .lr_schedule = word_of(kSchedules, options.lr_schedule)};
}

DecodeThreads decode_threads(const TrainerInput& input) {
  return choose_decode_threads(input.options.threads, threads_of_rank(0, input.communicator),
                               input.device.is_cuda());
}

DetectOptions detect_options(const TrainerInput& input) {
  const DecodeThreads threads = decode_threads(input);
  DetectOptions result;
  result.decode_threads = threads.first;
  result.most_decode_threads = threads.most;
  result.max_images = input.options.validation_images;
  return result;
}

}  // namespace

Trainer::Trainer(const TrainerInput& input)
    : options_(input.options),
      input_(input),
      communicator_(input.communicator),
      plan_(input.train.source.index(), input.options.plan_options(),
            input.options.steps_per_epoch),
      total_steps_(input.options.total_steps(plan_.steps_per_epoch())),
      replica_(replica_options(input), input.communicator),
      monitor_({.title = cat("retina-train: ", input.options.output),
                .effective_options = input.effective_options,
                .communicator = input.communicator,
                .run_dir = input.run_dir,
                .tensorboard = input.options.tensorboard,
                .total_steps = total_steps_}),
      saving_({.options = input.options.saving_options(),
               .facts = run_facts(input, plan_.steps_per_epoch(), total_steps_),
               .effective_options = input.effective_options,
               .categories = input.train.categories,
               .communicator = input.communicator,
               .replica = replica_,
               .run_dir = input.run_dir}),
      schedule_(input.options.adaptive_schedule(plan_.steps_per_epoch())),
      replica_checks_(input.options.check_replicas_every),
      damaged_records_(input.train.source.index(), input.options.max_bad_fraction) {
  if (input.validation != nullptr) {
    validation_ = make_validation(*input.validation, replica_.network(), detect_options(input));
  }
  if (is_root()) ReductionLog::begin(replica_.gradients(), input.run_dir);
}

void Trainer::resume(const Checkpoint& checkpoint, const std::string& source) {
  const RunState state =
      RunState::parse(communicator_.broadcast(checkpoint.trainer_json, 0), source);
  step_ = state.step;
  samples_seen_ = state.samples_seen;
  closed_step_ = state.epoch_closed ? step_ : -1;
  schedule_.restore(state.adaptive_schedule);
  rollback_.merge(state.skipped_steps);
  saving_.continue_from(state);
  replica_.restore(checkpoint, step_ - rollback_.skipped_before(step_), source);
}

void Trainer::initialise_from(const Checkpoint& checkpoint, const std::string& source) {
  if (is_root()) {
    load_initial_weights(replica_.network(), checkpoint, input_.train.categories, options_.seed,
                         source);
  }
  replica_.broadcast();
}

int Trainer::run() {
  begin();
  std::unique_ptr<BatchLoader> batches = load_steps(loading());
  bool stop = !close_open_epoch();
  while (!stop && !at_end()) {
    StepOutcome outcome;
    if (rollback_.skips(step_)) {
      outcome.is_finite = land_steps();
      ++step_;
    } else {
      outcome = train_step(*batches);
    }
    if (!outcome.is_finite) {
      batches.reset();
      go_back();
      batches = load_steps(loading());
      stop = !close_open_epoch();
      continue;
    }
    replica_checks_.after_step(step_, replica_, communicator_);
    if (!at_epoch_end() && !at_end()) closed_step_ = step_;
    // The stop comes before the epoch's end: its validation can take long, and is made up for
    // later.
    stop = outcome.stop || (!epoch_is_closed() && !close_epoch());
    if (stop) break;
    const bool save_due = outcome.save_due || saving_.is_due(step_, at_epoch_end());
    if (options_.writes() && (at_end() || save_due)) save();
    if (input_.timeline != nullptr) input_.timeline->after_step();
  }
  end(stop);
  return stop ? exit_code(ErrorKind::kInterrupted) : 0;
}

void Trainer::begin() {
  saving_.begin();
  monitor_.begin(step_);
  if (options_.rolls_back() && is_root()) {
    rollback_.keep_start(saving_.checkpoint_of(state()));
  }
}

StepLoaderInput Trainer::loading() const {
  return {.train = input_.train,
          .plan = options_.plan_options(),
          .micro_batch = options_.micro_batch,
          .threads = decode_threads(input_),
          .form = input_.device.is_cuda() ? PixelForm::kStored : PixelForm::kNormalised,
          .allocate = input_.device.is_cuda() ? allocate_pinned : allocate_plain,
          .rank = communicator_.rank(),
          .rank_count = communicator_.size(),
          .begin = step_,
          .end = total_steps_,
          .skipped = rollback_.skipped()};
}

void Trainer::launch_step(BatchLoader& batches) {
  Activity* const activity = communicator_.activity();
  if (activity != nullptr) activity->set_step(step_ + 1);
  Stopwatch part;
  StepMetrics record{.step = step_ + 1,
                     .epoch = plan_.epoch_of(step_) + 1,
                     .task = options_.task,
                     .ranks = communicator_.size()};

  // Forward, loss and backward of each pass; in the last one buckets of gradients leave for the
  // other ranks while backward goes on.
  for (bool is_last_micro_batch = false; !is_last_micro_batch;) {
    part.lap_ms();
    const std::optional<Batch> batch = [&] {
      const PhaseScope phase(activity, Phase::kDataWait);
      return batches.next();
    }();
    RETINA_CHECK(batch.has_value() && batch->part.step == step_);
    record.data_wait_ms += part.lap_ms();
    log_debug("step ", step_ + 1, ": trains on ", image_names(*batch));
    ignored_box_warning_.look_at(*batch);
    damaged_records_.look_at(*batch);
    for (const Sample& sample : batch->samples) {
      if (sample.replaced && sample.slot.counts) ++record.replaced_images;
    }
    replica_.accumulate(*batch);
    record.images = batch->part.real_image_count;
    record.images_own += static_cast<int>(batch->samples.size());
    is_last_micro_batch = batch->part.is_last_micro_batch;
  }

  part.lap_ms();
  {
    const PhaseScope phase(activity, Phase::kReduce);
    replica_.all_reduce();
  }
  record.exposed_comm_ms = part.lap_ms() + replica_.take_sync_wait_ms();
  record.reduce = replica_.reduce_cost();
  if (is_root()) reduction_log_.add(step_ + 1, replica_.gradients());

  const PhaseScope update(activity, Phase::kUpdate);
  record.learning_rate = schedule_.learning_rate(step_);
  replica_.update(record.learning_rate, step_ + 1);
  ++step_;
  samples_seen_ += record.images;
  in_flight_.push_back(record);
}

StepAgreement Trainer::agree_on(StepAgreement own, bool with_metrics) {
  if (with_metrics) {
    StepMetrics& record = in_flight_.front();
    const StepSums sums = replica_.take_metrics();
    own.metrics = sums.of_task;
    record.gradient_norm = sums.gradient_norm;
    record.parts = sums.parts;
  }
  const PhaseScope phase(communicator_.activity(), Phase::kReduce);
  return agree(own, communicator_);
}

Trainer::StepOutcome Trainer::train_step(BatchLoader& batches) {
  Stopwatch whole, part;
  launch_step(batches);
  StepMetrics& record = in_flight_.back();
  const bool with_metrics = in_flight_.size() > input_.steps_in_flight;

  // What every rank must know to continue the same way.
  part.lap_ms();
  const StepAgreement agreement = agree_on({.stop = stop_signal() != 0,
                                            .save = is_root() && saving_.is_due_by_clock(),
                                            .warned_of_ignored = ignored_box_warning_.is_told(),
                                            .replaced_images = record.replaced_images,
                                            .found_damage = damaged_records_.has_news()},
                                           with_metrics);
  record.exposed_comm_ms += part.lap_ms();
  record.replaced_images = agreement.replaced_images;
  ignored_box_warning_.agree(agreement.warned_of_ignored);
  if (agreement.found_damage) stop_for_damage();
  record.step_ms = whole.lap_ms();
  record.images_per_second = static_cast<double>(record.images) / (record.step_ms * 1e-3);
  record.checkpoint_ms = saving_.take_stall_ms();
  record.memory_bytes = peak_resident_bytes();
  record.device_memory_bytes = peak_device_bytes(input_.device);
  const double step_ms = record.step_ms;

  StepOutcome outcome = {.stop = agreement.stop, .save_due = agreement.save};
  if (with_metrics) outcome.is_finite = finish_step(agreement);
  const bool lands = outcome.stop || outcome.save_due || at_epoch_end() || at_end() ||
                     saving_.is_due(step_, at_epoch_end());
  if (lands && outcome.is_finite) outcome.is_finite = land_steps();
  if (is_root() && !outcome.stop) saving_.add_step((step_ms + whole.lap_ms()) * 1e-3);
  return outcome;
}

bool Trainer::land_steps() {
  bool is_finite = true;
  while (is_finite && !in_flight_.empty()) is_finite = finish_step(agree_on({}, true));
  return is_finite;
}

bool Trainer::finish_step(const StepAgreement& agreement) {
  StepMetrics record = in_flight_.front();
  in_flight_.pop_front();
  if (const std::string problem = agreement.problem(options_.task, record.gradient_norm);
      !problem.empty()) {
    leave_out(record, problem);
    return false;
  }
  record.values = agreement.metrics;
  schedule_.add_loss(record.loss(), record.images);
  rollback_.made_step();
  monitor_.add(record);
  return true;
}

// All ranks have the same figures, so they judge the same.
void Trainer::leave_out(const StepMetrics& step, const std::string& problem) {
  TrainingPlan plan(input_.train.source.index(), options_.plan_options());
  const std::int64_t place = step.step - 1;
  std::string text = cat("step ", step.step, ": ", problem, ", on ",
                         image_names(plan.at(place), input_.train.source.index()));
  if (options_.rolls_back() && rollback_.may_return()) {
    if (is_root()) {
      log_warning(text, ": this step is left out, training returns to the last checkpoint");
    }
    rollback_.leave_out(place);
    return;
  }
  // Rank 0 reports it and ends the job; the others wait for that.
  if (!is_root()) communicator_.barrier();
  saving_.finish();
  if (options_.rolls_back()) {
    text += cat(", after ", Rollback::kMostReturns, " returns without a new checkpoint");
  }
  throw Error(ErrorKind::kAnswerNo, text,
              "lower --lr, lengthen --warmup-steps or set --clip-norm, with another --output");
}

// Unless what is damaged is few enough to go on.
void Trainer::stop_for_damage() {
  const std::string problem = damaged_records_.agree(communicator_);
  if (problem.empty()) return;
  // Rank 0 reports it and ends the job; the others wait for that.
  if (!is_root()) communicator_.barrier();
  saving_.finish();
  throw Error(ErrorKind::kData, problem, kDamagedHint);
}

void Trainer::go_back() {
  replica_.drop_gradients();
  in_flight_.clear();
  std::optional<Found> found;
  bool has_checkpoint = false;
  if (is_root()) {
    saving_.finish();
    if (input_.run_dir != nullptr) found = newest_checkpoint(*input_.run_dir);
    has_checkpoint = found.has_value();
    if (!found && rollback_.start()) found = Found{*rollback_.start(), "the start of this job"};
    if (!found) {
      throw Error(ErrorKind::kIo, cat(options_.output, ": no whole checkpoint to return to"),
                  "fix the mount, then run the same command again");
    }
  }
  has_checkpoint = communicator_.all_reduce_max(has_checkpoint ? 1 : 0) != 0;
  resume(found ? found->checkpoint : Checkpoint{}, found ? found->path : "");
  if (!has_checkpoint) saving_.forget_saved();
  monitor_.begin(step_);
  if (is_root()) log_info("continuing from ", found->path, ", step ", step_);
}

// Runs the validation that is due, closes the epoch, judges. After a stop signal none of it
// has happened: a run that continues begins with it.
bool Trainer::close_epoch() {
  replica_.average_statistics();
  const bool validates = validation_ && (at_end() || is_scheduled_validation());
  if (validates && !run_validation()) return false;
  closed_step_ = step_;
  monitor_.close_epoch(epoch_point(step_, plan_.steps_per_epoch(), rollback_));
  if (at_epoch_end()) tell_pace(schedule_.close_epoch());
  if (validates) watch_validation(plan_.epoch_of(step_ - 1) + 1);
  return true;
}

// A stop came with the last step of an epoch, or its validation: that is made up for, and saved.
bool Trainer::close_open_epoch() {
  if (epoch_is_closed()) return true;
  if (!close_epoch()) return false;
  if (options_.writes()) save();
  return true;
}

void Trainer::end(bool stopped) {
  if (stopped) {
    monitor_.close_epoch({.step = step_, .epoch = plan_.epoch_of(step_ - 1) + 1});
    if (options_.writes() && saving_.saved_step() != step_) {
      if (is_root()) saving_.settle();
      save();
    }
  }
  if (!is_root()) return;
  const PhaseScope phase(communicator_.activity(), Phase::kCheckpointWrite);
  saving_.finish();
  monitor_.finish_progress();
  monitor_.write_report();
  if (!stopped) return;
  log_warning("stopped by signal ", stop_signal(), " after step ", step_,
              input_.run_dir != nullptr
                  ? " with a checkpoint; run the same command again to continue"
                  : "");
}

bool Trainer::is_scheduled_validation() const {
  const std::int64_t period = options_.validate_every_epochs * plan_.steps_per_epoch();
  return period > 0 && step_ % period == 0;
}

bool Trainer::run_validation() {
  const PhaseScope phase(communicator_.activity(), Phase::kValidate);
  if (is_root()) monitor_.clear_progress();
  const AverageScope averages = replica_.use_average();
  return validation_->run(communicator_);
}

void Trainer::watch_validation(std::int64_t epoch) {
  const PhaseScope phase(communicator_.activity(), Phase::kValidate);
  double judged = 0;
  if (is_root()) {
    ValidationResult result = validation_->result();
    const ValidationMetrics metrics{
        .step = step_, .epoch = epoch, .task = options_.task, .values = std::move(result.values)};
    judged = metrics.judged();
    monitor_.add_validation(metrics, std::move(result.classes),
                            validation_->gallery(kReportImages));
  }
  communicator_.broadcast(&judged, 1, ElementType::kFloat64, 0);
  // A validation that is due only because the run ends decides nothing: a longer run has none here.
  if (is_scheduled_validation()) tell_pace(schedule_.add_validation(judged));
  if (!is_root()) return;
  if (schedule_.ended_early()) {
    log_info("early stop: no better ", shown_metrics(options_.task).front().first, " for ",
             counted(options_.early_stop, "validation"));
  }
  monitor_.write_report();
}

void Trainer::tell_pace(bool dropped) {
  if (!dropped || !is_root()) return;
  log_info("step ", step_, ": ", word_of(kPlateauMetrics, options_.plateau_metric),
           " has stalled, learning rate now ", shortest(schedule_.learning_rate(step_)));
}

RunState Trainer::state() const {
  const std::int64_t epoch_steps = plan_.steps_per_epoch();
  return {.step = step_,
          .epoch = (step_ + epoch_steps - 1) / epoch_steps,
          .samples_seen = samples_seen_,
          .epoch_closed = epoch_is_closed(),
          .skipped_steps = rollback_.skipped(),
          .adaptive_schedule = schedule_.state(),
          .ap = monitor_.evaluated_of(step_),
          .learning_rate = schedule_.learning_rate(step_)};
}

void Trainer::save() {
  replica_checks_.before_save(step_, replica_, communicator_);
  saving_.save(state(), [&] { monitor_.sync(); });
  rollback_.saved();
}

}  // namespace retina
