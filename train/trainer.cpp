#include "train/trainer.h"

#include <sys/resource.h>

#include <cmath>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/base/measure.h"
#include "shared/base/stop_signal.h"
#include "shared/comm/watch/activity.h"
#include "shared/evaluation/metrics_text.h"
#include "shared/model/device.h"
#include "train/image_names.h"
#include "train/initial_weights.h"
#include "train/replica_check.h"
#include "train/run_report.h"
#include "train/start_point.h"
#include "train/step_loader.h"

namespace retina {
namespace {

constexpr std::size_t kReportPictures = 8;

std::int64_t peak_resident_bytes() {
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

ReplicaOptions replica_options(const TrainerInput& input) {
  const TrainOptions& options = input.options;
  BucketOptions buckets = options.bucket_options();
  if (input.run_dir != nullptr) buckets.stored = input.run_dir->read_buckets();
  return {.model = options.model_config(input.train.class_count()),
          .optimizer = options.optimizer_options(),
          .buckets = buckets,
          .loss = options.loss_options(),
          .sync_bn = options.shares_statistics(),
          .trainable_layers = options.layers_to_train(),
          .seed = options.seed,
          .device = input.device,
          .bf16 = options.precision == "bf16",
          .tf32 = options.tf32 == "on",
          .clip_norm = options.clip_norm,
          .ema = options.ema};
}

DetectOptions detect_options(const TrainOptions& options) {
  DetectOptions result;
  result.decode_threads = options.threads;
  result.max_images = options.validation_images;
  return result;
}

}  // namespace

Trainer::Trainer(const TrainerInput& input)
    : options_(input.options),
      input_(input),
      communicator_(input.communicator),
      plan_(input.train.source.index(), input.options.plan_options(),
            input.options.steps_per_epoch),
      pacing_(input.options.pacing(plan_.steps_per_epoch())),
      replica_(replica_options(input), input.communicator),
      total_steps_(input.options.total_steps(plan_.steps_per_epoch())),
      saving_({.options = input.options,
               .effective_options = input.effective_options,
               .train = input.train,
               .validation_fingerprint = input.validation_fingerprint,
               .communicator = input.communicator,
               .replica = replica_,
               .run_dir = input.run_dir,
               .steps_per_epoch = plan_.steps_per_epoch(),
               .total_steps = total_steps_}) {
  if (input.validation != nullptr) validation_.emplace(*input.validation, detect_options(options_));
  if (is_root()) ReductionLog::begin(replica_.gradients(), input.run_dir);
}

void Trainer::resume(const Checkpoint& checkpoint, const std::string& source) {
  const JsonFile file =
      JsonFile::parse(communicator_.broadcast(checkpoint.trainer_json, 0), source);
  step_ = file.root().at("step").as_int();
  samples_seen_ = file.root().at("samples_seen").as_int();
  epoch_closed_ = file.root().at("epoch_closed").as_bool();
  pacing_.restore(file.root().at("pacing"));
  saving_.continue_from(file.root());
  if (file.root().has("left_out_steps")) rollback_.merge(file.root().at("left_out_steps"));
  replica_.restore(checkpoint, step_ - rollback_.left_out_before(step_), source);
  resumed_ = true;
}

void Trainer::initialise_from(const Checkpoint& checkpoint, const std::string& source) {
  if (is_root()) {
    load_initial_weights(replica_.model(), checkpoint, input_.train.categories, options_.seed,
                         source);
  }
  replica_.broadcast();
}

std::unique_ptr<BatchLoader> Trainer::make_loader() {
  return load_steps({.train = input_.train,
                     .options = options_,
                     .rank = communicator_.rank(),
                     .rank_count = communicator_.size(),
                     .begin = step_,
                     .end = total_steps_,
                     .left_out = rollback_.left_out()});
}

int Trainer::run() {
  saving_.begin(resumed_ ? step_ : -1);
  if (is_root()) {
    if (writes()) log_.emplace(input_.run_dir->metrics_path(), step_);
    progress_.emplace("training", total_steps_, "steps");
    progress_->update(step_);
  }
  if (options_.rolls_back() && is_root()) {
    rollback_.keep_start(saving_.checkpoint_of(save_point(/*epoch_end=*/false)));
  }
  auto loader = make_loader();
  close_open_epoch();
  while (!at_end() && !stop_) {
    if (rollback_.leaves_out(step_)) {
      ++step_;
    } else {
      Stopwatch whole;
      train_step(*loader);
      if (is_root() && !stop_) saving_.add_step(whole.lap_ms() * 1e-3);
    }
    if (std::exchange(lost_, false)) {
      loader.reset();
      go_back();
      close_open_epoch();
      loader = make_loader();
      continue;
    }
    if (!rollback_.leaves_out(step_ - 1)) rollback_.made_step();
    const std::int64_t check_period = options_.check_replicas_every;
    if (check_period > 0 && step_ % check_period == 0) check_replicas();
    const bool epoch_end = step_ % plan_.steps_per_epoch() == 0;
    epoch_closed_ = !epoch_end && !at_end();
    if (!stop_ && !epoch_closed_) close_epoch();
    if (stop_) break;
    if (options_.writes() && (at_end() || save_now_ || saving_.is_due(step_, epoch_end))) {
      save(epoch_end);
    }
    if (input_.timeline != nullptr) input_.timeline->after_step();
  }
  if (stop_) books_.close(communicator_, {step_, plan_.epoch_of(step_ - 1) + 1}, metrics_log());
  if (stop_ && options_.writes() && saving_.saved_step() != step_) {
    if (is_root()) saving_.settle();
    save(false);
  }
  if (is_root()) {
    const PhaseScope phase(communicator_.activity(), Phase::kCheckpointWrite);
    saving_.finish();
    progress_->finish();
    write_report();
    if (stop_) {
      log_warning("stopped by signal ", stop_signal(), " after step ", step_,
                  writes() ? " with a checkpoint; run the same command again to continue" : "");
    }
  }
  return stop_ ? exit_code(ErrorKind::kInterrupted) : 0;
}

void Trainer::train_step(BatchLoader& loader) {
  const GlobalStep step = plan_.at(step_);
  const std::size_t pass_count =
      rank_passes(step, communicator_.rank(), communicator_.size(), options_.images_per_pass)
          .size();
  Activity* const activity = communicator_.activity();
  if (activity != nullptr) activity->set_step(step_ + 1);
  int images_own = 0;
  StepMetrics metrics{.step = step_ + 1,
                      .epoch = epoch_in_progress(),
                      .images = step.real_image_count,
                      .ranks = communicator_.size()};
  Stopwatch whole, part;
  PassLoss loss;
  for (std::size_t pass = 0; pass < pass_count; ++pass) {
    part.lap_ms();
    const std::optional<Batch> batch = [&] {
      const PhaseScope phase(activity, Phase::kDataWait);
      return loader.next();
    }();
    RETINA_CHECK(batch.has_value());
    metrics.data_wait_ms += part.lap_ms();
    images_own += static_cast<int>(batch->samples.size());
    log_debug("step ", step_ + 1, ": images ", image_names(*batch));
    if (!told_left_out_) told_left_out_ = warn_of_left_out(*batch);
    const PassLoss sums =
        replica_.accumulate(*batch, step.real_image_count, pass + 1 == pass_count);
    loss.classification += sums.classification;
    loss.box += sums.box;
  }
  part.lap_ms();
  const StepAgreement agreement = [&] {
    const PhaseScope phase(activity, Phase::kReduce);
    replica_.all_reduce();
    return agree({.classification_loss = loss.classification,
                  .box_loss = loss.box,
                  .stop = stop_signal() != 0,
                  .save = is_root() && saving_.is_due_by_clock(),
                  .told_left_out = told_left_out_},
                 communicator_);
  }();
  told_left_out_ = agreement.told_left_out;
  metrics.exposed_comm_ms = part.lap_ms() + replica_.take_sync_wait_ms();
  metrics.reduce = replica_.reduce_cost();
  if (!is_finite(agreement, 0)) return;
  if (is_root()) reduction_log_.add(step_ + 1, replica_.gradients());

  const PhaseScope update(activity, Phase::kUpdate);
  metrics.classification_loss = agreement.classification_loss;
  metrics.box_loss = agreement.box_loss;
  metrics.learning_rate = pacing_.learning_rate(step_);
  metrics.gradient_norm = replica_.update(metrics.learning_rate, step_ + 1);
  if (!is_finite(agreement, metrics.gradient_norm)) return;
  pacing_.add_loss(metrics.loss(), step.real_image_count);
  ++step_;
  samples_seen_ += step.real_image_count;
  stop_ = agreement.stop;
  save_now_ = agreement.save;
  metrics.step_ms = whole.lap_ms();
  metrics.images_per_second = step.real_image_count / (metrics.step_ms * 1e-3);
  metrics.checkpoint_ms = saving_.take_stall_ms();
  metrics.memory_bytes = peak_resident_bytes();
  throughput_.add(metrics, images_own);
  books_.add(metrics, images_own);
  log_step(metrics);
}

// All ranks have the same figures, so they judge alike.
bool Trainer::is_finite(const StepAgreement& agreement, double gradient_norm) {
  std::string problem = agreement.problem(gradient_norm);
  if (problem.empty()) return true;
  problem = cat("step ", step_ + 1, ": ", problem, ", images ",
                image_names(plan_.at(step_), input_.train.source.index()));
  if (options_.rolls_back() && rollback_.may_return()) {
    if (is_root()) {
      log_warning(problem, ": this step is left out, training returns to the last checkpoint");
    }
    rollback_.leave_out(step_);
    lost_ = true;
    return false;
  }
  // Rank 0 tells and ends the job, the others wait for that.
  if (!is_root()) communicator_.barrier();
  finish_saving();
  if (options_.rolls_back()) {
    problem += cat(", after ", Rollback::kMostReturns, " returns without a new checkpoint");
  }
  throw Error(ErrorKind::kAnswerNo, problem,
              "lower --lr, lengthen --warmup-steps or set --clip-norm, with another --output");
}

// However slow the disk is: the others know that this rank writes.
void Trainer::finish_saving() {
  const PhaseScope phase(communicator_.activity(), Phase::kCheckpointWrite);
  saving_.finish();
}

void Trainer::go_back() {
  replica_.drop_gradients();
  std::optional<Found> found;
  bool has_checkpoint = false;
  if (is_root()) {
    finish_saving();
    if (writes()) found = newest_checkpoint(*input_.run_dir);
    has_checkpoint = found.has_value();
    if (!found && rollback_.start()) found = Found{*rollback_.start(), "the start of this job"};
    if (!found) {
      throw Error(ErrorKind::kIo, cat(options_.output, ": no whole checkpoint to return to"),
                  "mend the mount, then run the same command again");
    }
  }
  has_checkpoint = communicator_.all_reduce_max(has_checkpoint ? 1 : 0) != 0;
  resume(found ? found->checkpoint : Checkpoint{}, found ? found->path : "");
  saving_.go_back(has_checkpoint ? step_ : -1);
  if (!is_root()) return;
  if (log_) log_.emplace(input_.run_dir->metrics_path(), step_);
  progress_->update(step_);
  log_info("continuing from ", found->path, ", step ", step_);
}

void Trainer::check_replicas() {
  if (communicator_.size() == 1 || checked_step_ == step_) return;
  checked_step_ = step_;
  retina::check_replicas(communicator_, replica_.hash(), step_);
}

void Trainer::log_step(const StepMetrics& metrics) {
  if (!is_root()) return;
  if (log_) {
    const PhaseScope phase(communicator_.activity(), Phase::kMetricsWrite);
    log_->append(metrics);
  }
  std::string detail = summary(metrics);
  if (last_metrics_) detail += cat(", AP ", metric_text(last_metrics_->stats[kAp]));
  progress_->update(step_, detail);
}

void Trainer::close_epoch() {
  const std::int64_t epoch = step_ / plan_.steps_per_epoch();
  replica_.average_statistics();
  const bool validates = validation_ && (at_end() || is_scheduled_validation());
  stop_ = validates && !detect_for_validation();
  epoch_closed_ = !stop_;
  if (stop_) return;
  const bool whole = step_ % plan_.steps_per_epoch() == 0;
  books_.close(communicator_, epoch_point(step_, plan_.steps_per_epoch(), rollback_),
               metrics_log());
  if (whole) tell_pace(pacing_.close_epoch());
  if (validates) validate(epoch);
}

// A stop came with the last step of an epoch, or its validation: that is made up for, and saved.
void Trainer::close_open_epoch() {
  if (epoch_closed_) return;
  close_epoch();
  if (options_.writes() && !stop_) save(step_ % plan_.steps_per_epoch() == 0);
}

bool Trainer::is_scheduled_validation() const {
  const std::int64_t period = options_.validate_every_epochs * plan_.steps_per_epoch();
  return period > 0 && step_ % period == 0;
}

// False when a stop signal came meanwhile.
bool Trainer::detect_for_validation() {
  const PhaseScope phase(communicator_.activity(), Phase::kValidate);
  if (is_root()) progress_->clear();
  const AverageScope averages = replica_.use_average();
  return validation_->detect(replica_.model(), communicator_);
}

void Trainer::validate(std::int64_t epoch) {
  const PhaseScope phase(communicator_.activity(), Phase::kValidate);
  if (is_root()) last_metrics_ = validation_->score();
  double ap = is_root() ? last_metrics_->stats[kAp] : 0;
  communicator_.broadcast(&ap, 1, ElementType::kFloat64, 0);
  // A validation that only the run's end caused decides nothing: a longer run has none here.
  if (is_scheduled_validation()) tell_pace(pacing_.add_validation(ap));
  if (!is_root()) return;
  const auto& stats = last_metrics_->stats;
  if (log_) log_->append(ValidationMetrics{.step = step_, .epoch = epoch, .stats = stats});
  log_info("epoch ", epoch, ", step ", step_, ": validation AP ", metric_text(stats[kAp]),
           ", AP50 ", metric_text(stats[kAp50]), ", AP75 ", metric_text(stats[kAp75]));
  if (pacing_.ended_early()) {
    log_info("early stop: no better AP for ", options_.early_stop, " validations");
  }
  write_report();
}

void Trainer::tell_pace(bool dropped) {
  if (!dropped || !is_root()) return;
  log_info("step ", step_, ": ", options_.plateau_figure, " has stalled, learning rate now ",
           shortest(pacing_.learning_rate(step_)));
}

SavePoint Trainer::save_point(bool epoch_end) const {
  SavePoint point{.step = step_,
                  .samples_seen = samples_seen_,
                  .epoch_end = epoch_end,
                  .epoch_closed = epoch_closed_,
                  .pacing = pacing_,
                  .rollback = rollback_};
  if (last_metrics_ && log_ && !log_->validations().empty() &&
      log_->validations().back().step == step_) {
    point.ap = last_metrics_->stats[kAp];
  }
  return point;
}

void Trainer::save(bool epoch_end) {
  save_now_ = false;
  if (options_.check_replicas_every > 0) check_replicas();
  saving_.save(save_point(epoch_end), log_ ? &*log_ : nullptr);
  rollback_.saved();
}

void Trainer::write_report() {
  if (!writes()) return;
  RunReportInput page{.title = cat("retina-train: ", options_.output),
                      .total_steps = total_steps_,
                      .steps_per_epoch = plan_.steps_per_epoch(),
                      .rank_count = communicator_.size(),
                      .options = input_.effective_options};
  if (validation_ && last_metrics_) page.pictures = validation_->pictures(kReportPictures);
  if (last_metrics_) page.last_validation = &*last_metrics_;
  midway(
      [&] { write_file_atomically(input_.run_dir->report_path(), run_report_html(page, *log_)); });
}

}  // namespace retina
