#include "train/start/options.h"

#include <cmath>
#include <cstdio>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/exact_number.h"
#include "shared/checkpoint/pretrained.h"
#include "shared/cli/cli.h"
#include "shared/data/sample_source.h"
#include "shared/model/network_shape.h"
#include "train/run/run_config.h"
#include "train/run/saving.h"
#include "train/start/recipes.h"

namespace retina {
namespace {

[[noreturn]] void refuse(const std::string& option, const std::string& got,
                         const std::string& want) {
  throw Error(ErrorKind::kUsage, cat(option, ": bad value (got ", got, ", want ", want, ")"));
}

void at_least(const char* option, double got, double least) {
  if (!(got >= least)) refuse(option, shortest(got), cat("at least ", shortest(least)));
}

// What to train on, and what it begins with.
void check_sources(const TrainOptions& o) {
  o.synthetic_image_size();
  const bool is_synthetic = o.data.synthetic > 0;
  for (const auto& [name, is_missing] :
       {std::pair{"--train", o.data.train.empty()}, {"--output", o.output.empty()}}) {
    if (is_missing && !is_synthetic) {
      throw Error(ErrorKind::kUsage, cat(name, " is missing"), "run retina-train --help");
    }
  }
  if (is_synthetic && !(o.data.train.empty() && o.validation.shards.empty())) {
    throw Error(ErrorKind::kUsage, "--synthetic cannot be combined with --train or --validation",
                "leave one or the other out");
  }
  const std::string published = facts_of_recipe(o.recipe).weights;
  if (o.model.init.empty() && !published.empty() && !is_synthetic) {
    const PretrainedWeights* const backbone = find_backbone(published, o.model.backbone);
    throw Error(
        ErrorKind::kConfig,
        cat("--recipe ", o.recipe, ": begins with a pretrained backbone, --init is missing"),
        backbone != nullptr
            ? cat(fetch_command(*backbone, o.data.first_train()), ", then --init ", backbone->name,
                  "; --init none trains from scratch")
            : cat("import a ", o.model.backbone, " of ImageNet with retina-convert --import, then ",
                  "--init FILE; --init none trains from scratch"));
  }
  if (o.data.stage.always && o.scratch.empty() && !is_synthetic) {
    throw Error(ErrorKind::kUsage, "--stage always: --scratch is missing",
                "give --scratch DIR, a folder on a local disk");
  }
}

void check_images(const TrainOptions& o) {
  const TrainOptions::Data& data = o.data;
  if (o.wants_own_sides() && o.classifies()) {
    refuse("--min-side", "auto", "pixels: a classifier's images all become the same square");
  }
  if (!o.model.keep_ratio && o.wants_own_sides()) {
    throw Error(ErrorKind::kConfig,
                "--min-side auto: contradicts --keep-ratio off, which makes squares of all images",
                "give the side of the squares in pixels");
  }
  if (o.model.backbone == kCifarCnn && !o.drawn_sides().empty()) {
    refuse("--min-side", "several", "one, as cifar-cnn sees images of one size");
  }
  for (const auto side : o.drawn_sides()) {
    at_least("--min-side", static_cast<double>(side), o.least_side());
  }
  at_least("--min-side", o.min_side(), o.least_side());
  at_least("--max-side", o.max_side(), o.min_side());
  data.augment.options(o.augment_set());
  if (data.sampler == Sampler::kClassBalanced && data.synthetic > 0) {
    throw Error(ErrorKind::kUsage,
                "--sampler class-balanced: synthetic images have no rare classes",
                "give --train SHARDS, or leave one of the two out");
  }
}

void check_model(const TrainOptions& o) {
  const TrainOptions::Model& model = o.model;
  if (model.sync_bn && o.norm_kind() == Norm::kFrozen) {
    throw Error(ErrorKind::kConfig, "--sync-bn on: a frozen norm has no statistics to share",
                model.norm ? "give --sync-bn off or --norm batch"
                           : "give --sync-bn off or --norm batch: --init freezes it by default");
  }
  if (!is_pyramid_width(model.fpn_channels)) {
    refuse("--fpn-channels", cat(model.fpn_channels),
           cat(kLeastPyramidChannels, " to ", kMostPyramidChannels, " in steps of ", kHeadGroups));
  }
  if (model.anchors_per_location == 1 && !model.anchor_sizes) {
    throw Error(ErrorKind::kUsage,
                "--anchor-sizes auto: fits 9 anchors a location (got --anchors-per-location 1)",
                "leave --anchor-sizes out: 64,128,256,512,1024");
  }
}

// The number of steps, and what ends them early or lowers the rate.
void check_length(const TrainOptions& o) {
  if (o.length.epochs && o.length.steps) {
    throw Error(ErrorKind::kUsage, "--epochs and --steps are both given", "keep one of them");
  }
  if (!o.length.time.empty()) parse_duration_s("--for", o.length.time);
  const std::string judge = o.judge();
  if (judge.empty()) return;
  if (o.validation.shards.empty()) {
    throw Error(ErrorKind::kUsage, cat(judge, ": there is no --validation set to judge by"),
                "give --validation SHARDS");
  }
  if (o.validation.every_epochs == 0) {
    throw Error(ErrorKind::kUsage,
                cat(judge, ": with --validate-every 0 there is no validation to judge by"),
                "give --validate-every 1 or more");
  }
}

// Schedule, checkpoints and what shows the run.
void check_job(const TrainOptions& o) {
  if (o.schedule.rule.schedule.kind == ScheduleKind::kInverseTime && !o.schedule.decay) {
    throw Error(ErrorKind::kUsage, "--lr-schedule inverse-time: lr-decay is missing",
                "give \"lr-decay\": D in --config; the rate is halved after 1/D steps");
  }
  o.micro_batch_images();
  if (o.monitoring.preview > 0 && o.data.synthetic > 0) {
    throw Error(ErrorKind::kUsage, "--preview: synthetic images show nothing",
                "give --train SHARDS, or leave one of the two out");
  }
  o.saving_options();
  const std::string& resume = o.checkpoints.resume;
  if (resume == "true" || resume == "True" || resume == "1" || resume == "yes") {
    throw Error(ErrorKind::kUsage,
                cat("--resume: bad value (got ", resume, ", want auto, never or a checkpoint)"),
                "leave it out: the same command again continues what is in --output");
  }
  o.bucket_options();
}

}  // namespace

bool TrainOptions::from_scratch() const {
  return !names_weights(model.init);
}

ImageSize TrainOptions::synthetic_image_size() const {
  ImageSize size;
  char rest = 0;
  constexpr int kMost = SyntheticSource::kMostSidePx;
  const bool is_whole =
      std::sscanf(data.synthetic_size.c_str(), "%5dx%5d%c", &size.width, &size.height, &rest) == 2;
  if (!is_whole || std::min(size.width, size.height) < 1 ||
      std::max(size.width, size.height) > kMost) {
    refuse("--synthetic size", data.synthetic_size, cat("WIDTHxHEIGHT, each 1..", kMost));
  }
  return size;
}

void TrainOptions::check_task() const {
  const Task recipe_task = facts_of_recipe(recipe).task;
  const bool is_for_any = recipe == kAutoRecipe || recipe == kNoRecipe;
  if (!is_for_any && recipe_task != task) {
    throw Error(ErrorKind::kConfig,
                cat("--recipe ", recipe, ": is for --task ", word_of(kTaskOptions, recipe_task),
                    " (got ", word_of(kTaskOptions, task), ")"),
                "leave --task out, or choose another recipe");
  }
  const PlateauMetric metric = schedule.rule.plateau_metric;
  const char* wrong = nullptr;
  if (classifies() && metric == PlateauMetric::kAp) wrong = "--lr-schedule metric=ap";
  if (!classifies() && metric == PlateauMetric::kTop1) wrong = "--lr-schedule metric=top1";
  if (classifies() && data.augment.has_detail("box-visibility")) {
    wrong = "--augment box-visibility";
  }
  if (!classifies() && model.backbone == kCifarCnn) wrong = "--backbone cifar-cnn";
  if (wrong != nullptr) {
    throw Error(ErrorKind::kUsage,
                cat(wrong, ": has no effect with --task ", word_of(kTaskOptions, task)),
                "leave it out");
  }
}

void TrainOptions::validate() const {
  check_sources(*this);
  check_images(*this);
  check_model(*this);
  check_length(*this);
  check_job(*this);
  // Schedule and model check their own values.
  for (const auto& text : schedule.drop_at) {
    if (parse_span("--lr-drop-at", text).unit == Span::Unit::kMinutes) {
      refuse("--lr-drop-at", text, "epochs, steps or a share of the run such as 16/26");
    }
  }
  model_config(1).validate();
  if (loss.match.background_iou > loss.match.foreground_iou) {
    refuse("--assigner background", shortest(loss.match.background_iou),
           cat("at most foreground, ", shortest(loss.match.foreground_iou)));
  }
}

std::string TrainOptions::judge() const {
  const AdaptiveScheduleOptions& rule = schedule.rule;
  if (rule.early_stop_patience > 0) return "--early-stop";
  if (rule.stop_at > 0) return "--stop-at-ap";
  if (!watches_validation()) return "";
  return cat("--lr-schedule plateau,metric=", word_of(kPlateauMetrics, rule.plateau_metric));
}

bool TrainOptions::watches_validation() const {
  return schedule.rule.schedule.kind == ScheduleKind::kPlateau &&
         schedule.rule.plateau_metric != PlateauMetric::kLoss;
}

TrainOptions TrainOptions::for_ranks(int rank_count) const {
  TrainOptions result = *this;
  const bool is_of_rank = !length.images_per_step && length.images_per_rank > 0;
  result.length.images_per_step = is_of_rank ? length.images_per_rank * rank_count : step_images();
  return result;
}

ModelConfig TrainOptions::model_config(int class_count) const {
  ModelConfig config;
  config.task = task;
  config.backbone = model.backbone;
  config.class_count = class_count;
  config.norm = norm_kind();
  config.norm_eps = model.norm_eps;
  config.head_norm = model.head_norm;
  config.p6_from_c5 =
      model.p6 == P6Source::kAuto ? model.head_norm == HeadNorm::kGroup : model.p6 == P6Source::kC5;
  config.anchor_sizes = anchor_sizes();
  config.anchor_offset = model.anchor_offset;
  config.anchors_per_location = model.anchors_per_location;
  config.fpn_channels = model.fpn_channels;
  config.head_convs = model.head_convs;
  config.keep_ratio = model.keep_ratio;
  config.min_side_px = min_side();
  config.max_side_px = max_side();
  if (model.backbone == kCifarCnn) {  // Keras' example divides by 255 alone
    config.image_mean = {0, 0, 0};
    config.image_std = {1, 1, 1};
  }
  return config;
}

OptimizerOptions TrainOptions::optimizer_options() const {
  OptimizerOptions result = optimizer.rule;
  result.weight_decay =
      optimizer.weight_decay.value_or(result.kind == OptimizerKind::kAdamW ? 0.05 : 1e-4);
  return result;
}

std::optional<int> TrainOptions::micro_batch_images() const {
  const std::string& text = length.micro_batch;
  if (text == "auto") return std::nullopt;
  const auto images = exact_number<int>(text);
  if (!images || *images < 0 || *images > kMostImages) {
    refuse("--micro-batch", text, cat("auto or 0..", kMostImages));
  }
  return images;
}

BucketOptions TrainOptions::bucket_options() const {
  const std::string& text = distribution.bucket_mb;
  BucketOptions result = distribution.buckets;
  if (text == "auto") return result;
  const auto mebibytes = exact_number<double>(text);
  if (!mebibytes || !(*mebibytes > 0 && *mebibytes <= 1e5)) {
    refuse("--config bucket-mb", text, "auto or a size in MiB, e.g. 4");
  }
  result.bucket_bytes = static_cast<std::size_t>(std::ceil(*mebibytes * (1 << 20)));
  return result;
}

EpochPlanOptions TrainOptions::plan_options() const {
  const std::vector<std::int64_t> drawn = drawn_sides();
  return {.seed = seed,
          .images_per_step = step_images(),
          .shuffle = data.shuffle,
          .sampler = data.sampler,
          .repeat_threshold = data.repeat_threshold,
          .frame = model_config(1).frame(),
          .min_sides_px = {drawn.begin(), drawn.end()},
          .augment = data.augment.options(augment_set())};
}

SavingOptions TrainOptions::saving_options() const {
  SavingOptions result{.keep = checkpoints.keep,
                       .writes = writes(),
                       .folder = output,
                       .scratch = scratch,
                       .names_last_step = length.steps.has_value()};
  result.period = parse_span("--checkpoint-every", checkpoints.every);
  if (result.period.unit == Span::Unit::kRun) {
    refuse("--checkpoint-every", checkpoints.every, "epochs, steps or minutes");
  }
  return result;
}

double TrainOptions::base_lr() const {
  if (optimizer.lr) return *optimizer.lr;
  switch (optimizer.rule.kind) {
    case OptimizerKind::kSgd:
      return 0.01;
    case OptimizerKind::kRmsprop:
      return 1e-3;  // Keras'; Tieleman & Hinton 2012
    default:
      return 1e-4;
  }
}

double TrainOptions::effective_lr() const {
  if (optimizer.lr_scaling == LrScaling::kNone) return base_lr();
  return base_lr() * step_images() / facts_of_recipe(recipe).reference_images_per_step;
}

std::int64_t TrainOptions::total_steps(std::int64_t epoch_steps) const {
  if (length.steps) return *length.steps;
  return length.epochs.value_or(data.synthetic > 0 ? 1 : facts_of_recipe(recipe).epochs) *
         epoch_steps;
}

AdaptiveScheduleOptions TrainOptions::adaptive_schedule(std::int64_t epoch_steps) const {
  AdaptiveScheduleOptions result = schedule.rule;
  result.schedule =
      schedule_of({.total_steps = total_steps(epoch_steps), .steps_per_epoch = epoch_steps});
  return result;
}

ScheduleOptions TrainOptions::schedule_of(const RunLength& run) const {
  ScheduleOptions result = schedule.rule.schedule;
  result.base_lr = effective_lr();
  const std::int64_t recipe_warmup = facts_of_recipe(recipe).warmup_epochs * run.steps_per_epoch;
  result.warmup_steps = schedule.warmup_steps.value_or(
      recipe_warmup > 0 ? recipe_warmup : default_warmup_steps(run.total_steps));
  std::vector<Span> drops;
  for (const auto& text : schedule.drop_at) drops.push_back(parse_span("--lr-drop-at", text));
  result.drop_steps = drop_steps(drops, run, result.warmup_steps);
  result.total_steps = run.total_steps;
  result.decay = schedule.decay.value_or(0);
  return result;
}

const std::vector<double>& TrainOptions::anchor_sizes() const {
  return model.anchor_sizes ? *model.anchor_sizes : default_anchor_sizes();
}

}  // namespace retina
