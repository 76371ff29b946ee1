#include "train/start/fit_time.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "shared/base/cat.h"
#include "shared/job/rank_program.h"
#include "shared/model/device.h"
#include "train/run/checkpoint_interval.h"
#include "train/start/recipes.h"
#include "train/start/step_speed.h"

namespace retina {
namespace {

constexpr const char* kDefaultTime = "1h";  // on a CPU, where nothing is said
// A run that sees fewer images learns more with a smaller image or network: docs/measurements.md.
constexpr double kLeastEpochs = 40, kLeastImages = 8000;
constexpr int kCpuStepImages = 4;        // more updates in the same time
constexpr double kMostValidating = .08;  // share of the time
constexpr std::int64_t kMostValidations = 26;
constexpr double kSlowStepSeconds = 20;
constexpr int kSideStepPx = 32;  // images are padded to multiples of it

// The choices on a CPU, the first that sees enough images is taken.
struct Candidate {
  const char* size;
  double side_share;  // of the images' own side
};
constexpr Candidate kCandidates[] = {
    {"small", 1}, {"tiny", 1}, {"tiny", .75}, {"tiny", .5}, {"tiny", .375}};

ImageSize padded(const InputSides& sides) {
  const auto up = [](int side) { return (side + kSideStepPx - 1) / kSideStepPx * kSideStepPx; };
  return {up(sides.max_px), up(sides.min_px)};
}

InputSides scaled(const InputSides& own, double share) {
  const int min_px =
      std::max(kSideStepPx * 2,
               static_cast<int>(std::lround(own.min_px * share / kSideStepPx)) * kSideStepPx);
  if (share == 1 || min_px >= own.min_px) return own;
  return {.min_px = min_px,
          .max_px = static_cast<int>(std::lround(1.0 * own.max_px * min_px / own.min_px))};
}

void apply_size(const std::string& name, TrainOptions& options, const Setter& set) {
  for (const auto& [size, apply] : size_presets(options)) {
    if (size == name) apply(set);
  }
}

}  // namespace

TimeFit::TimeFit(Cli& cli, TrainOptions& options, const Job& job, const RunStart& start)
    : cli_(cli), options_(options), job_(job), start_(start) {}

bool TimeFit::can_measure() const {
  return job_.device.is_cuda() || options_.compute.device != DeviceChoice::kCuda;
}

StepSpeed TimeFit::measure(const TrainOptions& options) const {
  at::set_num_threads(threads_of_rank(options.compute.threads, job_.communicator));
  return measure_step(options, job_.data->train->class_count(), job_.device);
}

std::string TimeFit::choose_size() {
  const bool chooses = options_.model.size == kAutoSize && options_.recipe == kAutoRecipe &&
                       !options_.classifies() && options_.data.synthetic == 0 &&
                       options_.from_scratch() && !cli_.given(options_.model.backbone);
  if (options_.model.size == kAutoSize) cli_.reopen(options_.model.size);
  const Setter set = cli_.data_setter({});
  const bool is_kept =
      start_.before && chooses && cli_.decide_as_before(options_.model.size, *start_.before);
  if (is_kept) {  // with all that was decided beside it
    apply_size(options_.model.size, options_, set);
    cli_.decide_as_before(options_.length.time, *start_.before);
    cli_.decide_as_before(options_.data.min_sides_px, *start_.before);
    cli_.decide_as_before(options_.data.max_side_px, *start_.before);
    cli_.decide_as_before(options_.length.images_per_step, *start_.before);
    return "";
  }
  if (!chooses || start_.before || job_.device.is_cuda() || !can_measure()) {
    cli_.decide(options_.model.size, kNoSize);
    return "";
  }
  // A length that is given is kept, whatever the time.
  const bool has_length = options_.length.epochs || options_.length.steps;
  if (!has_length && options_.length.time.empty()) cli_.decide(options_.length.time, kDefaultTime);
  const std::string& time = options_.length.time;
  const double time_s = parse_duration_s(cli_.name_of(time), time.empty() ? kDefaultTime : time);
  if (options_.length.images_per_rank == 0) {
    cli_.decide(options_.length.images_per_step,
                std::max(kCpuStepImages, job_.communicator.size()));
  }
  const double images = static_cast<double>(start_.image_count);
  const double wanted = std::max(kLeastEpochs * images, kLeastImages);
  const bool has_side = cli_.given(options_.data.min_sides_px);
  InputSides sides;
  const Candidate* chosen = nullptr;
  std::map<std::string, StepSpeed> speeds;
  double seen = 0;
  for (const Candidate& one : kCandidates) {
    if (has_side && one.side_share < 1) break;
    TrainOptions tried = options_;
    apply_size(one.size, tried, Setter([](const void*) { return true; }));
    if (!speeds.contains(one.size)) speeds[one.size] = measure(tried);
    if (has_side) {
      sides = {.min_px = options_.min_side(), .max_px = options_.max_side()};
    } else {
      sides = scaled(own_sides(options_, job_.data->source->index()), one.side_share);
    }
    chosen = &one;
    speed_ = speeds[one.size];
    seen = time_s * job_.communicator.size() / speed_->image_seconds(padded(sides));
    if (seen >= wanted) break;
  }
  cli_.decide(options_.model.size, chosen->size);
  apply_size(chosen->size, options_, set);
  if (!has_side) {
    cli_.decide(options_.data.min_sides_px, std::vector<std::int64_t>{sides.min_px});
    cli_.decide(options_.data.max_side_px, sides.max_px);
  }
  return cat("size ", chosen->size, " at ", options_.min_side(), " px, chosen because ",
             human_seconds(time_s), " on this CPU ", seen >= wanted ? "let" : "do not even let",
             " a network of it see the ", counted(start_.image_count, "image"), " about ",
             std::lround(seen / images), " times; ", cli_.name_of(options_.model.size), ", ",
             cli_.name_of(options_.data.min_sides_px), " or ", cli_.name_of(options_.length.time),
             " choose otherwise");
}

std::string TimeFit::choose_precision() {
  Precision& precision = options_.compute.precision;
  if (precision == Precision::kAuto) cli_.reopen(precision);
  if (start_.before && cli_.decide_as_before(precision, *start_.before)) return "";
  if (precision != Precision::kAuto) return "";
  const bool measures = facts_of_recipe(options_.recipe).fits_data && can_measure();
  if (!measures) {
    cli_.decide(precision, Precision::kFp32);
    return "";
  }
  if (!speed_) speed_ = measure(options_);
  cli_.decide(precision, speed_->precision);
  if (speed_->bf16_share == 1) return "";
  return cat("precision ", word_of(kPrecisions, precision), ", chosen because bf16 takes ",
             fixed(speed_->bf16_share, 2), " of fp32's time here");
}

std::string TimeFit::choose_length(const TrainingPlan& plan) {
  TrainOptions::Length& length = options_.length;
  const bool is_timed = !length.time.empty();
  if (start_.before) {
    cli_.decide_as_before(length.micro_batch, *start_.before);
    if (!is_timed) return "";
    cli_.decide_as_before(length.steps, *start_.before);
    cli_.decide_as_before(options_.validation.every_epochs, *start_.before);
    cli_.decide_as_before(options_.checkpoints.every, *start_.before);
    return "";
  }
  if (!can_measure() || !(is_timed || facts_of_recipe(options_.recipe).fits_data)) return "";
  if (!speed_) speed_ = measure(options_);
  const int ranks = job_.communicator.size();
  const double image_s =
      speed_->image_seconds(padded({.min_px = options_.min_side(), .max_px = options_.max_side()}));
  const double step_s = image_s * std::ceil(1.0 * options_.step_images() / ranks);
  // A signal ends the job after the images in progress: not long after it.
  if (step_s > kSlowStepSeconds) {
    cli_.decide(length.micro_batch, cat(std::max(1, static_cast<int>(kSlowStepSeconds / image_s))));
  }
  const auto& validation = job_.data->validation;
  const double validation_s =
      validation ? image_s * kForwardShare / ranks * static_cast<double>(validation->index().size())
                 : 0;
  const std::int64_t epoch_steps = plan.steps_per_epoch();
  if (is_timed) {
    const double epoch_s = step_s * static_cast<double>(epoch_steps);
    const double time_s = parse_duration_s(cli_.name_of(length.time), length.time) - kEndSeconds;
    const double period = std::ceil(std::max(
        {1.0, time_s / epoch_s / kMostValidations, validation_s / (kMostValidating * epoch_s)}));
    cli_.decide(options_.validation.every_epochs, static_cast<int>(period));
    cli_.decide(options_.checkpoints.every, cat(options_.validation.every_epochs, "epochs"));
    const double all_s = step_s + validation_s * step_s / (period * epoch_s);
    cli_.decide(length.steps,
                std::max<std::int64_t>(1, std::llround((time_s - validation_s) / all_s)));
  }
  const auto steps = static_cast<double>(options_.total_steps(epoch_steps));
  const auto period = std::max<std::int64_t>(1, options_.validation.every_epochs) * epoch_steps;
  const double run_s =
      step_s * steps + validation_s * std::ceil(steps / static_cast<double>(period));
  return cat("about ", human_seconds(run_s + kEndSeconds), " from here, ",
             fixed(image_s * 1e3, image_s < .01 ? 1 : 0), " ms an image as measured",
             is_timed ? cat("; ", *length.steps, " steps, as many as fit into ",
                            cli_.name_of(length.time), " ", length.time)
                      : "");
}

}  // namespace retina
