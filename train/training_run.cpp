#include "train/training_run.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/log.h"
#include "shared/base/signals.h"
#include "shared/comm/activity.h"
#include "shared/job/rank_program.h"
#include "shared/model/device.h"
#include "shared/model/network_shape.h"
#include "shared/shard/set_notes.h"
#include "train/plan/image_names.h"
#include "train/run/continuation.h"
#include "train/run/initial_weights.h"
#include "train/start/fit_time.h"

namespace retina {
namespace {

constexpr std::size_t kReportImages = 8;
constexpr std::int64_t kPaceSteps = 5;  // make a pace, if they take at least
constexpr double kPaceShare = .02;      // of the run's time
constexpr const char* kNeedLess =
    "choose a smaller --min-side and --max-side or a smaller --backbone, start fewer ranks on each "
    "machine, or free memory";
constexpr const char* kNormSeesFewer =
    "; batch norm sees only these, so that the run is not the same as with all of them";

ReplicaOptions replica_options(const Job& job) {
  ReplicaOptions result = replica_options(job.options, job.data->train->class_count(), job.device);
  if (job.dir) result.buckets.stored = job.dir->read_buckets();
  return result;
}

// Returns the side of the tiles that the sets hold, if all have one side; else 0.
int tile_side(const std::vector<ShardSet>& sets) {
  std::set<int> sides;
  for (const ShardSet& set : sets) {
    const std::optional<TileRule>& rule = set.manifest().options.tile;
    sides.insert(rule ? rule->side_px : 0);
  }
  return sides.size() == 1 ? *sides.begin() : 0;
}

RunFacts run_facts(const Job& job, const TrainingState& state) {
  const TrainOptions& options = job.options;
  return {.train_fingerprint = job.data->train->fingerprint,
          .validation_fingerprint = job.data->validation_fingerprint,
          .seed = options.seed,
          .images_per_step = options.step_images(),
          .steps_per_epoch = state.steps_per_epoch(),
          .total_steps = state.total_steps(),
          .base_lr = options.base_lr(),
          .effective_lr = options.effective_lr(),
          .lr_schedule = word_of(kSchedules, options.schedule.rule.schedule.kind),
          .tile_px = tile_side(job.data->train_shards)};
}

// Returns the largest number of images of a step that a rank has.
int share_of_step(const Job& job) {
  return static_cast<int>(largest_share(static_cast<std::size_t>(job.options.step_images()),
                                        static_cast<std::size_t>(job.communicator.size())));
}

}  // namespace

TrainingRun::TrainingRun(Job& own)
    : job(own),
      options(own.options),
      communicator(own.communicator),
      state(options.adaptive_schedule(own.data->plan->steps_per_epoch()),
            own.data->plan->steps_per_epoch()),
      replica(replica_options(own), communicator),
      monitor({.title = cat("retina-train: ", options.output),
               .effective_options = own.effective_options,
               .communicator = communicator,
               .run_dir = own.dir.get(),
               .tensorboard = options.monitoring.tensorboard,
               .total_steps = state.total_steps()}),
      saving({.options = options.saving_options(),
              .facts = run_facts(own, state),
              .effective_options = own.effective_options,
              .categories = own.data->train->categories,
              .communicator = communicator,
              .replica = replica,
              .run_dir = own.dir.get()}),
      replica_checks(options.distribution.check_replicas_every),
      micro_batch_(share_of_step(own)) {
  if (!own.data->validation) return;
  const DecodeThreads threads = decode_threads(own);
  DetectOptions detect;
  detect.decode_threads = threads.first;
  detect.most_decode_threads = threads.most;
  detect.max_images = options.validation.images;
  validation_ = make_validation(*own.data->validation, replica.task(), detect,
                                shared_images(own.data->train_shards, *own.data->validation).ids);
}

RunState TrainingRun::restore(const Checkpoint& checkpoint, const std::string& source) {
  const RunState saved =
      RunState::parse(communicator.broadcast(checkpoint.trainer_json, 0), source);
  state.restore(saved);
  saving.continue_from(saved);
  replica.restore(checkpoint, state.update_count(), source);
  return saved;
}

void TrainingRun::resume(const Checkpoint& checkpoint, const std::string& source) {
  const std::int64_t total_before = restore(checkpoint, source).facts.total_steps;
  if (total_before == state.total_steps()) return;
  length_change_ = {
      .step = state.step(), .total_steps = state.total_steps(), .total_steps_before = total_before};
  if (!communicator.is_root()) return;
  const auto schedule = [&](std::int64_t total_steps) {
    return options.schedule_of(
        {.total_steps = total_steps, .steps_per_epoch = state.steps_per_epoch()});
  };
  if (state.step() >= total_before) {
    log_warning(
        "this run had ended, and more steps bring its learning rate up again: AP falls before it "
        "rises; a run of its own from its weights takes --init RUN and another --output");
  }
  log_info(length_change_text(schedule(total_before), schedule(state.total_steps()), state.step()));
}

void TrainingRun::initialise_from(const Checkpoint& checkpoint, const std::string& source) {
  if (communicator.is_root()) {
    load_initial_weights(replica.network(), checkpoint, job.data->train->categories, options.seed,
                         source);
  }
  replica.broadcast();
}

void TrainingRun::begin() {
  saving.begin();
  monitor.begin(state.step());
  if (!options.length.time.empty()) {
    const double share_left =
        1 - static_cast<double>(state.step()) /
                static_cast<double>(std::max<std::int64_t>(1, state.total_steps()));
    pace_ = {.left_s = share_left * parse_duration_s("--for", options.length.time) - kEndSeconds,
             .begin_s = now_seconds(),
             .begin_step = state.step()};
  }
  if (length_change_) monitor.add(*length_change_);
  if (options.rolls_back() && communicator.is_root()) {
    state.rollback.keep_start(saving.checkpoint_of(state.saved({})));
  }
}

MemoryPlan TrainingRun::fit_into_memory() {
  if (state.at_end()) return {};
  need_.emplace(job, replica, state.step(), state.total_steps());
  const int share = micro_batch_;
  const std::optional<int> wanted = options.micro_batch_images();
  if (wanted) {
    if (*wanted > 0) micro_batch_ = std::min(share, *wanted);
  } else {
    while (micro_batch_ > 1 && !need_->fits(micro_batch_)) --micro_batch_;
    if (!need_->fits(micro_batch_)) {
      throw Error(ErrorKind::kUnavailable,
                  cat("out of memory: training needs ", need_->text(1), " for one image at a time"),
                  cat(kNeedLess, ", or give --micro-batch 1 to try it all the same"));
    }
    const auto fitting = -static_cast<int>(communicator.all_reduce_max(-micro_batch_));
    const int parts = (share + fitting - 1) / fitting;
    micro_batch_ = (share + parts - 1) / parts;  // equal parts
  }
  return memory_plan(share);
}

MemoryPlan TrainingRun::memory_plan(int share) const {
  const std::int64_t spare = need_->available_bytes() - need_->bytes(micro_batch_);
  const std::int64_t least = -communicator.all_reduce_max(-spare);
  const std::vector<std::string> texts =
      communicator.gather(spare == least ? need_->text(micro_batch_) : "", 0);
  if (!communicator.is_root()) return {};
  const auto tightest = std::find_if(texts.begin(), texts.end(),
                                     [](const std::string& text) { return !text.empty(); });
  const std::string text = cat("memory: a rank needs ", *tightest, " for ",
                               counted(micro_batch_, "image"), " at a time");
  if (least < 0) {
    return {.text = cat(text, ", as --micro-batch says: it may run out"), .is_tight = true};
  }
  if (micro_batch_ < share && !options.micro_batch_images()) {
    return {.text = cat(text, "; its ", share, " images of a step would need more",
                        norm_follows_micro_batch() ? kNormSeesFewer : ""),
            .is_tight = true};
  }
  return {.text = text};
}

bool TrainingRun::norm_follows_micro_batch() const {
  return options.norm_kind() == Norm::kBatch && options.model.backbone != kCifarCnn;
}

bool TrainingRun::can_halve_micro_batch() const {
  // With --sync-bn the others wait for this rank in each layer.
  return micro_batch_ > 1 && !(options.model.sync_bn && communicator.size() > 1);
}

void TrainingRun::fail_without_memory(std::int64_t step, const std::string& problem) const {
  const bool is_shared = options.model.sync_bn && micro_batch_ > 1;
  throw Error(ErrorKind::kUnavailable,
              cat("step ", step, ": ", problem, " with ", counted(micro_batch_, "image"),
                  " at a time", need_ ? cat(", which needs ", need_->text(micro_batch_)) : ""),
              is_shared ? cat("with --sync-bn the number stays: give --micro-batch ",
                              micro_batch_ / 2, " and run the same command again")
                        : kNeedLess);
}

void TrainingRun::halve_micro_batch(std::int64_t step, const std::string& problem) {
  const std::vector<std::string> problems = communicator.gather(problem, 0);
  const int before = std::exchange(micro_batch_, micro_batch_ / 2);
  if (!communicator.is_root()) return;
  const auto first = std::find_if(problems.begin(), problems.end(),
                                  [](const std::string& text) { return !text.empty(); });
  const std::string rank =
      communicator.size() > 1 ? cat(" on rank ", first - problems.begin()) : "";
  log_warning("step ", step, ": ", *first, rank, ": it is repeated, from here on with ",
              counted(micro_batch_, "image"), " at a time instead of ", before,
              norm_follows_micro_batch() ? kNormSeesFewer : "");
}

StepLoaderInput TrainingRun::loading() const {
  const bool on_gpu = job.device.is_cuda();
  return {.source = job.data->train->source,
          .plan = *job.data->plan,
          .micro_batch = micro_batch_,
          .threads = decode_threads(job),
          .form = on_gpu ? PixelForm::kStored : PixelForm::kNormalised,
          .allocate = on_gpu ? allocate_pinned : allocate_plain,
          .rank = communicator.rank(),
          .rank_count = communicator.size(),
          .begin = state.step(),
          .end = state.total_steps(),
          .skipped = state.rollback.skipped()};
}

bool TrainingRun::is_pace_due() const {
  const std::int64_t made = state.step() - pace_.begin_step;
  // The run may be so much faster than it was measured that it ends before its time is due.
  const bool is_half =
      2 * made >= std::max<std::int64_t>(kLeastTimedSteps, state.total_steps() - pace_.begin_step);
  const bool is_time = now_seconds() - pace_.begin_s >= kPaceShare * pace_.left_s;
  return !options.length.time.empty() && (is_half || (made >= kPaceSteps && is_time));
}

bool TrainingRun::finish_epoch() {
  const double end_s = now_seconds();
  replica.average_statistics();
  const bool validates = validation_ && (state.at_end() || is_scheduled_validation());
  if (validates && !run_validation()) return false;
  state.close_epoch();
  monitor.close_epoch(epoch_point(state.step(), state.steps_per_epoch(), state.rollback));
  if (state.at_epoch_end()) log_plateau(state.schedule.close_epoch());
  if (validates) report_validation();
  const double validation_s = now_seconds() - end_s;
  pace_.begin_s += validation_s;
  if (validates && pace_.step_s > 0) pace_.validation_steps = validation_s / pace_.step_s;
  return true;
}

std::int64_t TrainingRun::steps_in_time() {
  constexpr double kLeastStray = .03;
  const double end_s = now_seconds();
  const double step_s =
      (end_s - pace_.begin_s) / static_cast<double>(state.step() - pace_.begin_step);
  pace_.step_s = pace_.step_s > 0 ? (pace_.step_s + step_s) / 2 : step_s;
  pace_.begin_s = end_s;
  pace_.begin_step = state.step();
  if (validation_ && pace_.validation_steps == 0) {  // none has been timed yet
    pace_.validation_steps = forward_share(options.compute.precision) / options.step_images() *
                             static_cast<double>(job.data->validated_images(options));
  }
  const double period = steps_between_validations(options, state.steps_per_epoch());
  const double fitting = fitting_steps(pace_.left_s - (now_seconds() - job.begun_s), pace_.step_s,
                                       pace_.validation_steps * pace_.step_s, period,
                                       std::fmod(static_cast<double>(state.step()), period));
  const auto planned = static_cast<double>(state.total_steps() - state.step());
  const bool strays = std::abs(fitting - planned) > kLeastStray * planned;
  return strays ? state.step() + std::max<std::int64_t>(1, std::llround(fitting)) : 0;
}

bool TrainingRun::refit_length() {
  if (options.length.time.empty() || state.at_end()) return false;
  const bool decides = communicator.is_root() && is_pace_due();
  if (decides && use_free_cores(options, job)) {
    log_info("step ", state.step(), ": ", counted(at::get_num_threads(), "thread"),
             " from here, as other programs leave cores");
  }
  const std::int64_t steps = communicator.all_reduce_max(decides ? steps_in_time() : 0);
  if (steps == 0 || steps == state.total_steps()) return false;
  if (communicator.is_root() && 10 * std::abs(steps - state.total_steps()) > steps) {
    log_info("step ", state.step(), ": ", counted(steps, "step"),
             " in all now fit into the time (were ", state.total_steps(), ")");
  }
  change_steps(job, steps, state.step());
  state.set_length(options.adaptive_schedule(state.steps_per_epoch()).schedule);
  saving.set_total_steps(steps);
  monitor.set_total_steps(steps);
  return true;
}

bool TrainingRun::finish_interrupted_epoch() {
  if (state.is_epoch_closed()) return true;
  if (!finish_epoch()) return false;
  save();
  return true;
}

bool TrainingRun::is_scheduled_validation() const {
  const std::int64_t period = options.validation.every_epochs * state.steps_per_epoch();
  return period > 0 && state.step() % period == 0;
}

bool TrainingRun::run_validation() {
  const PhaseScope phase(communicator.activity(), Phase::kValidate);
  if (communicator.is_root()) monitor.clear_progress();
  const AverageScope averages = replica.use_average();
  return validation_->run(communicator);
}

// Scores and reports the validation that has run, and gives its metric to the schedule.
void TrainingRun::report_validation() {
  const PhaseScope phase(communicator.activity(), Phase::kValidate);
  double judged = 0;
  if (communicator.is_root()) {
    ValidationResult result = validation_->result();
    const ValidationMetrics metrics{.step = state.step(),
                                    .epoch = state.epoch_of(state.step()),
                                    .task = options.task,
                                    .values = std::move(result.values),
                                    .count_best = result.count_best,
                                    .losses = result.losses};
    judged = metrics.judged();
    reached_goal_ = state.schedule.reaches(judged);
    Gallery gallery;
    try {
      gallery = validation_->gallery(kReportImages);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInterrupted) throw;  // the page then has no images
    }
    monitor.add_validation(metrics, std::move(result.classes), std::move(gallery));
  }
  communicator.broadcast(&judged, 1, ElementType::kFloat64, 0);
  // A validation that is due only because the run ends decides nothing: a longer run would not have
  // it.
  if (is_scheduled_validation()) log_plateau(state.schedule.add_validation(judged));
  if (!communicator.is_root()) return;
  if (state.at_end()) {
    if (const auto facts = validation_->verdict_facts()) verdict_ = monitor.conclude(*facts);
  }
  const std::string& metric = shown_metrics(options.task).front().first;
  if (reached_goal_) {
    log_info(metric, " has reached ", shortest(options.schedule.rule.stop_at), ", --stop-at-ap");
  } else if (state.schedule.ended_early()) {
    log_info("early stop: ", metric, " has not improved in ",
             counted(options.schedule.rule.early_stop_patience, "validation"));
  }
  monitor.write_report();
}

void TrainingRun::log_plateau(bool dropped) const {
  if (!dropped || !communicator.is_root()) return;
  log_info("step ", state.step(), ": ",
           word_of(kPlateauMetrics, options.schedule.rule.plateau_metric),
           " has reached a plateau, learning rate now ", shortest(state.learning_rate()));
}

void TrainingRun::save() {
  if (!options.writes()) return;
  replica_checks.before_save(state.step(), replica, communicator);
  saving.save(state.saved(monitor.evaluated_of(state.step())), [this] { monitor.sync(); });
  state.rollback.saved();
}

// All ranks have the same metrics, so they decide the same.
void TrainingRun::skip(const StepMetrics& step, const std::string& problem) {
  const std::int64_t place = step.step - 1;
  std::string text =
      cat("step ", step.step, ": ", problem, ", on ",
          image_names(TrainingPlan(*job.data->plan).at(place), job.data->plan->index()));
  if (options.rolls_back() && state.rollback.may_return()) {
    if (communicator.is_root()) {
      log_warning(text, ": this step is skipped; rolling back to the last checkpoint");
    }
    state.rollback.skip(place);
    return;
  }
  if (options.rolls_back()) {
    text += cat(", after ", Rollback::kMostReturns, " rollbacks without a new checkpoint");
  }
  fail({ErrorKind::kAnswerNo, text,
        "lower --lr, lengthen --warmup-steps or set --clip-norm, with another --output"});
}

void TrainingRun::fail(const Error& error) {
  // Rank 0 reports it and ends the job; the others wait for that.
  if (!communicator.is_root()) communicator.barrier();
  saving.finish();
  monitor.finish_progress();
  try {
    monitor.write_report();  // the curves up to here show the failure
  } catch (const Error& lost) {
    log_warning(lost.what());  // the job ends with the first error
  }
  throw Error(error);
}

void TrainingRun::go_back() {
  replica.drop_gradients();
  std::optional<Found> found;
  bool has_checkpoint = false;
  if (communicator.is_root()) {
    saving.finish();
    if (job.dir) found = newest_checkpoint(*job.dir);
    has_checkpoint = found.has_value();
    const std::optional<Checkpoint>& start = state.rollback.start();
    if (!found && start) found = Found{*start, "the start of this job"};
    if (!found) {
      throw Error(ErrorKind::kIo, cat(options.output, ": no intact checkpoint to return to"),
                  "fix the mount, then run the same command again");
    }
  }
  has_checkpoint = communicator.all_reduce_max(has_checkpoint ? 1 : 0) != 0;
  restore(found ? found->checkpoint : Checkpoint{}, found ? found->path : "");
  if (!has_checkpoint) saving.forget_saved();
  monitor.begin(state.step());
  if (communicator.is_root()) log_info("continuing from ", found->path, ", step ", state.step());
}

void TrainingRun::end(bool stopped) {
  const bool has_begun = state.step() > 0;  // otherwise there is nothing to save
  if (stopped && has_begun) {
    monitor.close_epoch({.step = state.step(), .epoch = state.epoch_of(state.step())});
    if (options.writes() && saving.saved_step() != state.step()) {
      if (communicator.is_root()) saving.finish_or_warn();
      save();
    }
  }
  if (!communicator.is_root()) return;
  const PhaseScope phase(communicator.activity(), Phase::kCheckpointWrite);
  saving.finish();
  monitor.finish_progress();
  monitor.write_report();
  if (!stopped) return;
  const char* const without = options.checkpoints.overwrite ? "without --overwrite " : "";
  log_warning("stopped by signal ", stop_signal(), " after step ", state.step(),
              job.dir && has_begun
                  ? cat(" with a checkpoint; run the same command again ", without, "to continue")
                  : "");
}

}  // namespace retina
