#include "train/start/fit_time.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <map>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/memory.h"
#include "shared/job/rank_program.h"
#include "shared/model/device.h"
#include "train/start/recipes.h"
#include "train/start/step_speed.h"

namespace retina {
namespace {

constexpr const char* kDefaultTime = "1h";  // on a CPU, where nothing is said
// A run that sees fewer images learns more with a smaller image or network: docs/measurements.md.
constexpr double kLeastEpochs = 6, kLeastImages = 2000;
constexpr int kCpuStepImages = 4;        // more updates in the same time
constexpr double kMostValidating = .08;  // share of the time
constexpr std::int64_t kMostValidations = 26;
constexpr double kSlowStepSeconds = 20;
constexpr double kMostTrialSeconds = 4;  // of steps at the run's own image size
constexpr double kTakenCores = .3;       // by others, from which on a layer does without them

// The choices on a CPU, the first that sees enough images is taken.
struct Candidate {
  const char* size;
  double side_share;  // of the images' own side
  double images = 1;  // what it wants to see, over the least
};
constexpr Candidate kCandidates[] = {
    {"small", 1, 25}, {"tiny", 1}, {"tiny", .75}, {"tiny", .5}, {"tiny", .375}};

InputSides scaled(const InputSides& own, double share) {
  constexpr int kStepPx = 32, kLeastPx = 64;
  const int min_px =
      std::max(kLeastPx, static_cast<int>(std::lround(own.min_px * share / kStepPx)) * kStepPx);
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

double mean_pixels(const ImageIndex& index, const TrainOptions& options, const InputSides& sides) {
  FrameRule rule = options.model_config(1).frame();
  rule.min_side_px = sides.min_px;
  rule.max_side_px = sides.max_px;
  const int together = options.data.shuffle == Shuffle::kGlobal ? options.step_images() : 1;
  const auto steps = std::max<std::size_t>(1, index.size() / static_cast<unsigned>(together));
  double pixels = 0;
  for (std::size_t first = 0; first < steps; ++first) {
    ImageSize most;
    int images = 0;
    for (std::size_t i = first; i < index.size(); i += steps, ++images) {
      const ImageSize padded = padded_size({index[i].width, index[i].height}, rule);
      most = {std::max(most.width, padded.width), std::max(most.height, padded.height)};
    }
    pixels += 1.0 * images * most.width * most.height;
  }
  return pixels / static_cast<double>(index.size());
}

double steps_between_validations(const TrainOptions& options, std::int64_t epoch_steps) {
  const int epochs = options.validation.every_epochs;
  return static_cast<double>(epochs == 0 ? INT64_MAX : epochs * epoch_steps);
}

double fitting_steps(double seconds, double step_s, double validation_s, double period,
                     double since) {
  const double left_s = seconds - validation_s + since * step_s;  // from the validation before
  const double period_s = period * step_s + validation_s;
  const double whole = std::max(0.0, std::floor(left_s / period_s));
  return whole * period + std::min(period, (left_s - whole * period_s) / step_s) - since;
}

bool use_free_cores(const TrainOptions& options, const Job& job) {
  const int before = at::get_num_threads();
  const int most = threads_of_rank(options.compute.threads, job.communicator);
  at::set_num_threads(most);
  const bool follows = options.compute.threads == 0 && !options.length.time.empty();
  if (!follows || most == 1 || job.communicator.size() > 1 || job.device.is_cuda()) return false;
  double taken = 0;
  for (const double length_s : {.05, .2}) {  // a short disturbance does not count
    const auto [begun_s, begun] = std::pair(now_seconds(), std::clock());
    at::parallel_for(0, most, 1, [end_s = begun_s + length_s](std::int64_t, std::int64_t) {
      while (now_seconds() < end_s) continue;
    });
    const double used_s = static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
    taken = most - used_s / (now_seconds() - begun_s);
    if (taken < kTakenCores) break;
  }
  if (taken >= kTakenCores) at::set_num_threads(std::max(1, static_cast<int>(most - taken)));
  return at::get_num_threads() != before;
}

bool TimeFit::can_measure() const {
  return job.device.is_cuda() || options.compute.device != DeviceChoice::kCuda;
}

StepSpeed TimeFit::measure(TrainOptions tried, double pixels, double most_image_s) const {
  use_free_cores(options, job);
  const int classes = job.data->train->class_count();
  StepSpeed found = measure_step(tried, classes, job.device);
  // Few images: how many fit into memory at once is not known yet.
  const int ranks = job.communicator.size();
  const int images = std::clamp(tried.for_ranks(ranks).step_images() / ranks, 2, kCpuStepImages);
  const bool is_short = 2 * images * pixels * found.seconds_per_pixel < kMostTrialSeconds;
  const bool is_hopeless = pixels * found.seconds_per_pixel > 2 * most_image_s;
  if (!is_short || is_hopeless || tried.classifies()) return found;
  tried.compute.precision = found.precision;
  const int side_px = padded_side_px(static_cast<int>(std::sqrt(pixels)));
  try {
    found.seconds_per_pixel =
        measure_step(tried, classes, job.device, side_px, images).seconds_per_pixel;
  } catch (const std::exception& error) {
    if (!out_of_memory(error)) throw;  // the run itself takes fewer images at a time
  }
  return found;
}

double TimeFit::pixels() const {
  return mean_pixels(job.data->source->index(), options.for_ranks(job.communicator.size()),
                     {.min_px = options.min_side(), .max_px = options.max_side()});
}

std::string TimeFit::choose_size() {
  const bool has_backbone = cli.given(options.model.backbone) || !options.from_scratch();
  const bool may_choose = cli.given(options.model.size) ? !start.has_detector : !has_backbone;
  const bool chooses = options.model.size == kAutoSize && options.recipe == kAutoRecipe &&
                       !options.classifies() && options.data.synthetic == 0 && may_choose;
  if (options.model.size == kAutoSize) cli.reopen(options.model.size);
  const Setter set = cli.data_setter({});
  const bool has_length = options.length.epochs || options.length.steps;
  const bool is_kept =
      start.before && chooses && cli.decide_as_before(*start.before, options.model.size);
  const bool on_cpu = !start.before && !job.device.is_cuda() && can_measure();
  const bool measures = chooses && on_cpu;
  if ((is_kept || measures) && !cli.given(options.model.anchor_sizes)) {
    options.model.anchor_sizes.reset();  // they fit the boxes, too
  }
  if (start.before && options.length.images_per_rank == 0) {
    cli.decide_as_before(*start.before, options.length.images_per_step);
  }
  if (start.before && !has_length) cli.decide_as_before(*start.before, options.length.time);
  if (is_kept) {  // with all that was decided beside it
    apply_size(options.model.size, options, set);
    cli.decide_as_before(*start.before, options.data.min_sides_px, options.data.max_side_px);
    return "";
  }
  const bool is_timed = on_cpu && options.recipe == kAutoRecipe && !options.length.time.empty();
  if ((measures || is_timed) && options.length.images_per_rank == 0) {
    cli.decide(options.length.images_per_step, std::max(kCpuStepImages, job.communicator.size()));
  }
  if (!measures) {
    if (!options.classifies()) cli.decide(options.model.size, kNoSize);
    return "";
  }
  // A length that is given is kept, whatever the time.
  if (!has_length && options.length.time.empty()) cli.decide(options.length.time, kDefaultTime);
  const std::string& time = options.length.time;
  const double time_s = parse_duration_s(cli.name_of(time), time.empty() ? kDefaultTime : time);
  const auto images = static_cast<double>(start.image_count);
  const double wanted = std::max(kLeastEpochs * images, kLeastImages);
  const bool has_side = cli.given(options.data.min_sides_px);
  const ImageIndex& index = job.data->source->index();
  InputSides sides;
  const Candidate* chosen = nullptr;
  std::map<std::string, StepSpeed> speeds;
  double seen = 0;
  for (const Candidate& one : kCandidates) {
    if (has_side && one.side_share < 1) break;
    TrainOptions tried = options;
    const Setter all([](const void*) { return true; });
    if (start.image_count < kSmallSetImages) find_recipe(kSmallRecipe)->apply(tried, all);
    apply_size(one.size, tried, all);
    if (has_backbone && tried.model.backbone != options.model.backbone) continue;
    if (has_side && !options.wants_own_sides()) {
      sides = {.min_px = options.min_side(), .max_px = options.max_side()};
    } else {
      sides = scaled(own_sides(options, index), one.side_share);
    }
    const double pixels = mean_pixels(index, tried, sides);
    const double work_s = time_s * job.communicator.size();
    if (!speeds.contains(one.size)) {
      speeds[one.size] = measure(tried, pixels, work_s / (wanted * one.images));
    }
    chosen = &one;
    speed = speeds[one.size];
    seen = work_s / (speed->seconds_per_pixel * pixels);
    if (seen >= wanted * one.images) break;
  }
  if (chosen == nullptr) {
    throw Error(ErrorKind::kUsage, cat("--size auto: none for a CPU has ", options.model.backbone),
                "give --size none, or a size by its name");
  }
  cli.decide(options.model.size, chosen->size);
  apply_size(chosen->size, options, set);
  if (!has_side) {
    cli.decide(options.data.min_sides_px, std::vector<std::int64_t>{sides.min_px});
    cli.decide(options.data.max_side_px, sides.max_px);
  }
  return cat("size ", chosen->size, " at ", options.min_side(), " px, chosen because it is the ",
             seen >= wanted * chosen->images ? "largest" : "fastest, too slow though,",
             " that sees the ", counted(start.image_count, "image"), " often enough in ",
             human_seconds(time_s), " on this CPU (", fixed(seen / images, 1), " times); ",
             cli.name_of(options.model.size), ", ", cli.name_of(options.data.min_sides_px), " or ",
             cli.name_of(time), " choose otherwise");
}

std::string TimeFit::choose_precision() {
  Precision& precision = options.compute.precision;
  if (precision == Precision::kAuto) cli.reopen(precision);
  if (start.before && cli.decide_as_before(*start.before, precision)) return "";
  if (precision != Precision::kAuto) return "";
  const bool is_open = facts_of_recipe(options.recipe).fits_data && can_measure();
  if (!is_open || job.device.is_cuda()) {  // a GPU's units need no measurement
    const bool has_units = is_open && has_units_for(Precision::kBf16, job.device);
    cli.decide(precision, has_units ? Precision::kBf16 : Precision::kFp32);
    return "";
  }
  if (!speed) speed = measure(options, pixels());
  cli.decide(precision, speed->precision);
  if (speed->bf16_share == 1) return "";
  return cat("precision ", word_of(kPrecisions, precision), ", chosen because bf16 takes ",
             fixed(speed->bf16_share, 2), " times as long as fp32 here");
}

std::string TimeFit::choose_length(const TrainingPlan& plan) {
  TrainOptions::Length& length = options.length;
  const bool is_timed = !length.time.empty();
  if (start.before) {
    cli.decide_as_before(*start.before, length.micro_batch);
    const std::string was = cli.stored(length.time, *start.before).value_or("");
    const double longer = is_timed && !was.empty()
                              ? parse_duration_s("", length.time) / parse_duration_s("", was)
                              : 1;
    if (longer <= 1) cli.decide_as_before(*start.before, options.schedule.drop_at);
    if (!is_timed) return "";
    const auto epochs = cli.stored(length.epochs, *start.before);  // of a run that began by epochs
    if (!cli.decide_as_before(*start.before, length.steps) && epochs) {
      cli.decide(length.steps, std::stoll(*epochs) * plan.steps_per_epoch());
    }
    cli.decide_as_before(*start.before, options.validation.every_epochs, options.checkpoints.every);
    if (longer > 1 && length.steps) {  // at the pace so far
      cli.decide(length.steps, std::llround(static_cast<double>(*length.steps) * longer));
    }
    return "";
  }
  const bool estimates = facts_of_recipe(options.recipe).fits_data && !job.device.is_cuda();
  if (!can_measure() || !(is_timed || estimates)) return "";
  if (!speed) speed = measure(options, pixels());
  const int ranks = job.communicator.size();
  const double image_s = speed->seconds_per_pixel * pixels();
  const double step_s = image_s * std::ceil(1.0 * options.for_ranks(ranks).step_images() / ranks);
  // A signal ends the job after the images in progress: not long after it.
  if (step_s > kSlowStepSeconds) {
    cli.decide(length.micro_batch, cat(std::max(1, static_cast<int>(kSlowStepSeconds / image_s))));
  }
  const auto shown = static_cast<double>(job.data->validated_images(options));
  const double validation_s = image_s * forward_share(speed->precision) / ranks * shown;
  const std::int64_t epoch_steps = plan.steps_per_epoch();
  if (is_timed) {
    const double epoch_s = step_s * static_cast<double>(epoch_steps);
    const double time_s = parse_duration_s(cli.name_of(length.time), length.time) - kEndSeconds -
                          (now_seconds() - job.begun_s);
    const double period = std::ceil(std::max(
        {1.0, time_s / epoch_s / kMostValidations, validation_s / (kMostValidating * epoch_s)}));
    cli.decide(options.validation.every_epochs, static_cast<int>(period));
    cli.decide(options.checkpoints.every, cat(static_cast<int>(period), "epochs"));
    const double fitting = fitting_steps(time_s, step_s, validation_s,
                                         steps_between_validations(options, epoch_steps));
    cli.decide(length.steps,
               std::max<std::int64_t>(step_s > kSlowStepSeconds ? 1 : kLeastTimedSteps,
                                      std::llround(fitting)));
  }
  const auto steps = static_cast<double>(options.total_steps(epoch_steps));
  const double validations =
      std::max(1.0, std::ceil(steps / steps_between_validations(options, epoch_steps)));
  const double all_s = step_s * steps + validation_s * validations + kEndSeconds;
  const int threads = at::get_num_threads();
  const bool shares = threads < threads_of_rank(options.compute.threads, job.communicator);
  const std::string text =
      cat("about ", human_seconds(all_s), " from here, ", fixed(image_s * 1e3, 1),
          " ms an image as measured",
          shares ? cat(" with ", counted(threads, "thread"), " beside other programs") : "");
  if (!is_timed) return text;
  const bool fits = all_s <= 1.2 * parse_duration_s("", length.time);
  return cat(text, "; ", counted(*length.steps, "step"),
             fits ? ", as many as fit into " : ", which is longer than ", cli.name_of(length.time),
             " ", length.time, fits ? "" : ": a smaller network or image fits");
}

}  // namespace retina
