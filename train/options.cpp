#include "train/options.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <type_traits>
#include <utility>

#include "shared/base/cli.h"
#include "shared/base/error.h"
#include "shared/checkpoint/pretrained.h"
#include "shared/data/sample_source.h"
#include "shared/model/network_shape.h"
#include "train/monitor/timeline.h"
#include "train/recipes.h"
#include "train/run/checkpoint_interval.h"
#include "train/run/run_config.h"
#include "train/run/saving.h"

namespace retina {
namespace {

constexpr int kMostImages = 65536;  // of a step
constexpr int kMostThreads = 1024;
constexpr int kMostPreview = 1000;  // samples on one page

[[noreturn]] void refuse(const std::string& option, const std::string& got,
                         const std::string& want) {
  throw Error(ErrorKind::kUsage, cat("--", option, ": bad value (got ", got, ", want ", want, ")"));
}

void require(bool holds, const char* option, double got, const char* want) {
  if (!holds) refuse(option, shortest(got), want);
}

void at_least(const char* option, double got, double least) {
  if (!(got >= least)) refuse(option, shortest(got), cat("at least ", shortest(least)));
}

void check_range(const char* option, std::int64_t got, std::int64_t low, std::int64_t high) {
  if (got < low || got > high) refuse(option, cat(got), cat(low, "..", high));
}

// Options that decide nothing in the task are mistakes, and so are recipes of another one.
void check_options_of_task(const TrainOptions& o) {
  const std::string word = word_of(kTaskOptions, o.task);
  const Task recipe_task = facts_of_recipe(o.recipe).task;
  const bool is_for_any = o.recipe == kAutoRecipe || o.recipe == kNoRecipe;
  if (!is_for_any && recipe_task != o.task) {
    throw Error(ErrorKind::kConfig,
                cat("--recipe ", o.recipe, ": is for --task ", word_of(kTaskOptions, recipe_task),
                    " (got ", word, ")"),
                "leave --task out, or choose another recipe");
  }
  const TrainOptions plain;
  std::string meaningless;
  const auto check = [&](const char* option, bool is_set) {
    if (is_set) meaningless += cat(meaningless.empty() ? "--" : ", --", option);
  };
  if (o.classifies()) {
    check("head-norm", o.model.head_norm != plain.model.head_norm);
    check("p6", o.model.p6 != plain.model.p6);
    check("anchor-sizes", o.model.anchor_sizes != plain.model.anchor_sizes &&
                              o.model.anchors_per_location == plain.model.anchors_per_location);
    check("anchor-offset", o.model.anchor_offset != plain.model.anchor_offset);
    check("anchors-per-location", o.model.anchors_per_location != plain.model.anchors_per_location);
    check("size", o.model.size != plain.model.size);
    check("train-on-crowds", o.data.train_on_crowds);
    check("keep-ratio", !o.model.keep_ratio);
    check("fpn-channels", o.model.fpn_channels != plain.model.fpn_channels);
    check("head-convs", o.model.head_convs != plain.model.head_convs);
    check("assigner", o.loss.assigner != plain.loss.assigner);
    check("class-loss", o.loss.class_loss != plain.loss.class_loss);
    check("box-loss", o.loss.box.kind != plain.loss.box.kind);
    check("box-loss-weight", o.loss.box_weight != plain.loss.box_weight);
    check("smooth-l1-beta", o.loss.box.smooth_l1_beta != plain.loss.box.smooth_l1_beta);
    check("box-target-std", o.loss.box.target_std != plain.loss.box.target_std);
    check("focal-alpha", o.loss.focal_alpha != plain.loss.focal_alpha);
    check("focal-gamma", o.loss.focal_gamma != plain.loss.focal_gamma);
    check("foreground-iou", o.loss.match.foreground_iou != plain.loss.match.foreground_iou);
    check("background-iou", o.loss.match.background_iou != plain.loss.match.background_iou);
    check("low-quality-matches",
          o.loss.match.low_quality_matches != plain.loss.match.low_quality_matches);
    check("box-visibility", o.data.augment.box_visibility.has_value());
    check("stop-at-ap", o.schedule.rule.stop_at != 0);
    check("plateau-metric ap", o.schedule.rule.plateau_metric == PlateauMetric::kAp);
    if (o.model.backbone == kCifarCnn) {
      check("min-sides", !o.data.min_sides_px.empty());
      check("trainable-layers", o.layers_to_train() != plain.layers_to_train());
      check("norm", o.model.norm.has_value());
      check("sync-bn", o.model.sync_bn);
    }
  } else {
    check("backbone cifar-cnn", o.model.backbone == kCifarCnn);
    check("label-smoothing", o.label_smoothing != 0);
    check("plateau-metric top1", o.schedule.rule.plateau_metric == PlateauMetric::kTop1);
  }
  if (!meaningless.empty()) {
    throw Error(ErrorKind::kUsage,
                cat(meaningless, ": not with --task ", word,
                    o.model.backbone == kCifarCnn && o.classifies() ? " --backbone cifar-cnn" : ""),
                "leave it out");
  }
  require(o.label_smoothing >= 0 && o.label_smoothing < 1, "label-smoothing", o.label_smoothing,
          "0 to below 1");
}

// So are those of another assigner, box loss or class loss.
void check_loss(const LossOptions& loss) {
  const LossOptions plain;
  const auto check = [](const char* option, const auto& value, const auto& usual,
                        const std::string& chosen) {
    if (value == usual) return;
    std::string text;
    if constexpr (std::is_same_v<decltype(usual), const bool&>) {
      text = usual ? "on" : "off";
    } else {
      text = shortest(usual);
    }
    throw Error(ErrorKind::kUsage, cat("--", option, ": not with ", chosen),
                cat("leave it out, or give --", option, " ", text, " where a recipe sets it"));
  };
  if (loss.assigner == Assigner::kAtss) {
    const MatchOptions &match = loss.match, &usual = plain.match;
    const std::string chosen = "--assigner atss";
    check("foreground-iou", match.foreground_iou, usual.foreground_iou, chosen);
    check("background-iou", match.background_iou, usual.background_iou, chosen);
    check("low-quality-matches", match.low_quality_matches, usual.low_quality_matches, chosen);
  }
  if (loss.box.kind != BoxLossKind::kSmoothL1) {
    check("smooth-l1-beta", loss.box.smooth_l1_beta, plain.box.smooth_l1_beta,
          cat("--box-loss ", word_of(kBoxLosses, loss.box.kind)));
  }
  if (loss.class_loss != ClassLossKind::kFocal) {
    const std::string chosen = cat("--class-loss ", word_of(kClassLosses, loss.class_loss));
    check("focal-alpha", loss.focal_alpha, plain.focal_alpha, chosen);
    check("focal-gamma", loss.focal_gamma, plain.focal_gamma, chosen);
  }
}

// What to train on, and what it begins with.
void check_sources(const TrainOptions& o) {
  check_range("synthetic", o.data.synthetic, 0, 10'000'000);
  o.synthetic_image_size();
  const bool is_synthetic = o.data.synthetic > 0;
  for (const auto& [name, is_missing] :
       {std::pair{"train", o.data.train.empty()}, {"output", o.output.empty()}}) {
    if (is_missing && !is_synthetic) {
      throw Error(ErrorKind::kUsage, cat("--", name, " is missing"), "run retina-train --help");
    }
  }
  if (is_synthetic && !(o.data.train.empty() && o.validation.shards.empty())) {
    throw Error(ErrorKind::kUsage, "--synthetic cannot be combined with --train or --validation",
                "leave one or the other out");
  }
  check_options_of_task(o);
  const std::string published = facts_of_recipe(o.recipe).backbone;
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
    refuse("min-side", "auto", "pixels: a classifier's images all become the same square");
  }
  if (!o.model.keep_ratio && o.wants_own_sides()) {
    throw Error(ErrorKind::kConfig,
                "--min-side auto: contradicts --keep-ratio off, which makes squares of all images",
                "give the side of the squares in pixels");
  }
  if (o.wants_own_sides() && !o.data.min_sides_px.empty()) {
    throw Error(ErrorKind::kConfig,
                "--min-side auto: contradicts --min-sides, which a recipe may set",
                "give the size of validation in pixels, or --min-sides of your images' own sizes");
  }
  const int least_side = o.least_side();
  for (const auto side : data.min_sides_px) {
    if (side < least_side) refuse("min-sides", cat(side), cat("at least ", least_side));
    if (o.model.keep_ratio && side > o.max_side()) {
      refuse("min-sides", cat(side), cat(least_side, " to --max-side, ", o.max_side()));
    }
  }
  at_least("min-side", o.min_side(), least_side);
  at_least("max-side", o.max_side(), o.min_side());
  data.augment.options(o.augment_set());
  require(data.repeat_threshold > 0 && data.repeat_threshold <= 1, "repeat-threshold",
          data.repeat_threshold, "above 0 to 1");
  if (data.sampler == Sampler::kClassBalanced && data.synthetic > 0) {
    throw Error(ErrorKind::kUsage,
                "--sampler class-balanced: synthetic images have no rare classes",
                "give --train SHARDS, or leave one of the two out");
  }
  require(data.max_bad_fraction >= 0 && data.max_bad_fraction <= 1, "max-bad-fraction",
          data.max_bad_fraction, "0 to 1");
}

void check_model(const TrainOptions& o) {
  const TrainOptions::Model& model = o.model;
  if (model.sync_bn && o.norm_kind() == Norm::kFrozen) {
    throw Error(ErrorKind::kConfig, "--sync-bn on: a frozen norm has no statistics to share",
                model.norm ? "give --sync-bn off or --norm batch"
                           : "give --sync-bn off or --norm batch: --init freezes it by default");
  }
  at_least("norm-eps", model.norm_eps, 0);
  if (!is_pyramid_width(model.fpn_channels)) {
    refuse("fpn-channels", cat(model.fpn_channels),
           cat(kLeastPyramidChannels, " to ", kMostPyramidChannels, " in steps of ", kHeadGroups));
  }
  if (model.anchors_per_location == 1 && !model.anchor_sizes) {
    throw Error(ErrorKind::kUsage,
                "--anchor-sizes auto: fits 9 anchors a location (got --anchors-per-location 1)",
                "leave --anchor-sizes out: 64,128,256,512,1024");
  }
  const double box_weight = o.loss.box_weight;
  require(box_weight > 0 && box_weight <= 1000, "box-loss-weight", box_weight, "above 0 to 1000");
  check_range("head-convs", model.head_convs, 1, kMostHeadConvs);
  if (model.trainable_layers && (*model.trainable_layers < 0 || *model.trainable_layers > 5)) {
    refuse("trainable-layers", cat(*model.trainable_layers), "0 to 5");
  }
}

// The number of steps, and what ends them early or lowers the rate.
void check_length(const TrainOptions& o) {
  if (o.length.epochs && o.length.steps) {
    throw Error(ErrorKind::kUsage, "--epochs and --steps are both given", "keep one of them");
  }
  check_range("epochs", o.length.epochs.value_or(1), 1, kMostInSpan);
  check_range("steps", o.length.steps.value_or(1), 1, kMostInSpan);
  check_range("steps-per-epoch", o.length.steps_per_epoch, 0, kMostInSpan);
  const AdaptiveScheduleOptions& rule = o.schedule.rule;
  at_least("early-stop", rule.early_stop_patience, 0);
  require(rule.stop_at >= 0 && rule.stop_at <= 1, "stop-at-ap", rule.stop_at, "0 to 1");
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

// The batch, the optimizer and its learning rate.
void check_update(const TrainOptions& o) {
  check_range("images-per-step", o.step_images(), 1, kMostImages);
  check_range("images-per-rank", o.length.images_per_rank, 0, kMostImages);
  check_range("micro-batch", o.micro_batch_images().value_or(0), 0, kMostImages);
  const TrainOptions::Optimizer& optimizer = o.optimizer;
  const double lr = optimizer.lr.value_or(1), momentum = optimizer.rule.momentum,
               rho = optimizer.rule.rho, ema = optimizer.ema;
  require(lr > 0, "lr", lr, "above 0");
  require(momentum >= 0 && momentum < 1, "momentum", momentum, "0 to below 1");
  // Closer to 1, an f32 no longer tells it from 1.
  require(rho >= 0 && rho <= 0.999999, "rho", rho, "0 to 0.999999");
  at_least("weight-decay", optimizer.weight_decay.value_or(0), 0);
  at_least("norm-weight-decay", optimizer.rule.norm_weight_decay.value_or(0), 0);
  at_least("clip-norm", optimizer.clip_norm, 0);
  require(ema >= 0 && ema < 1, "ema", ema, "0 to below 1");
  const AdaptiveScheduleOptions& rule = o.schedule.rule;
  at_least("lr-drop-factor", rule.schedule.drop_factor, 0);
  const double decay = o.schedule.decay.value_or(1);
  require(decay > 0, "lr-decay", decay, "above 0");
  if (rule.schedule.kind == ScheduleKind::kInverseTime && !o.schedule.decay) {
    throw Error(ErrorKind::kUsage, "--lr-schedule inverse-time: --lr-decay is missing",
                "give --lr-decay D; the rate is halved after 1/D steps");
  }
  at_least("plateau-patience", rule.plateau_patience, 1);
}

// Ranks, checkpoints, validations and what shows the run.
void check_job(const TrainOptions& o) {
  at_least("expect-ranks", o.distribution.expect_ranks, 0);
  at_least("stall-timeout", o.distribution.watch.stall_timeout_s, 1);
  check_range("warmup-steps", o.schedule.warmup_steps.value_or(0), 0, kMostInSpan);
  at_least("warmup-factor", o.schedule.rule.schedule.warmup_factor, 0);
  check_range("keep", o.checkpoints.keep, 1, 1'000'000);
  at_least("validate-every", o.validation.every_epochs, 0);
  at_least("validation-images", static_cast<double>(o.validation.images), 0);
  check_range("threads", o.data.decode_threads, 0, kMostThreads);
  check_range("compute-threads", o.compute.threads, 0, kMostThreads);
  at_least("check-replicas-every", static_cast<double>(o.distribution.check_replicas_every), 0);
  parse_step_window("timeline-steps", o.monitoring.timeline_steps);
  check_range("preview", o.monitoring.preview, 0, kMostPreview);
  if (o.monitoring.preview > 0 && o.data.synthetic > 0) {
    throw Error(ErrorKind::kUsage, "--preview: synthetic images show nothing",
                "give --train SHARDS, or leave one of the two out");
  }
  o.saving_options();
  parse_duration_s("mtbf", o.checkpoints.mtbf);
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
    refuse("synthetic-size", data.synthetic_size, cat("WIDTHxHEIGHT, each 1..", kMost));
  }
  return size;
}

void TrainOptions::validate() const {
  check_sources(*this);
  check_images(*this);
  check_model(*this);
  check_length(*this);
  check_update(*this);
  check_job(*this);
  // Schedule, model and loss check their own values.
  for (const auto& text : schedule.drop_at) {
    if (parse_span("lr-drop-at", text).unit == Span::Unit::kMinutes) {
      refuse("lr-drop-at", text, "epochs, steps or a share of the run such as 16/26");
    }
  }
  model_config(1).validate();
  check_loss(loss);
  loss.validate();
}

std::string TrainOptions::judge() const {
  const AdaptiveScheduleOptions& rule = schedule.rule;
  if (rule.early_stop_patience > 0) return "--early-stop";
  if (rule.stop_at > 0) return "--stop-at-ap";
  if (!watches_validation()) return "";
  return cat("--plateau-metric ", word_of(kPlateauMetrics, rule.plateau_metric));
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
  int images = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, images);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    refuse("micro-batch", text, cat("auto or 0..", kMostImages));
  }
  return images;
}

BucketOptions TrainOptions::bucket_options() const {
  const std::string& text = distribution.bucket_mb;
  BucketOptions result = distribution.buckets;
  if (text == "auto") return result;
  double mebibytes = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, mebibytes);
  if (parsed.ec != std::errc() || parsed.ptr != end || !(mebibytes > 0 && mebibytes <= 1e5)) {
    refuse("bucket-mb", text, "auto or a size in MiB, e.g. 4");
  }
  result.bucket_bytes = static_cast<std::size_t>(std::ceil(mebibytes * (1 << 20)));
  return result;
}

EpochPlanOptions TrainOptions::plan_options() const {
  return {.seed = seed,
          .images_per_step = step_images(),
          .shuffle = data.shuffle,
          .sampler = data.sampler,
          .repeat_threshold = data.repeat_threshold,
          .framing = model_config(1).frame().framing,
          .min_side_px = min_side(),
          .max_side_px = max_side(),
          .min_sides_px = {data.min_sides_px.begin(), data.min_sides_px.end()},
          .augment = data.augment.options(augment_set())};
}

SavingOptions TrainOptions::saving_options() const {
  SavingOptions result{.mtbf = checkpoints.mtbf,
                       .keep = checkpoints.keep,
                       .writes = writes(),
                       .folder = output,
                       .scratch = scratch,
                       .names_last_step = length.steps.has_value()};
  if (checkpoints.every == "auto") return result;
  result.period = parse_span("checkpoint-every", checkpoints.every);
  if (result.period->unit == Span::Unit::kRun) {
    refuse("checkpoint-every", checkpoints.every, "epochs, steps or minutes");
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
  for (const auto& text : schedule.drop_at) drops.push_back(parse_span("lr-drop-at", text));
  result.drop_steps = drop_steps(drops, run, result.warmup_steps);
  result.total_steps = run.total_steps;
  result.decay = schedule.decay.value_or(0);
  return result;
}

const std::vector<double>& TrainOptions::anchor_sizes() const {
  return model.anchor_sizes ? *model.anchor_sizes : default_anchor_sizes();
}

}  // namespace retina
