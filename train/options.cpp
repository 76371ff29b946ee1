#include "train/options.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "shared/base/cli.h"
#include "shared/base/error.h"
#include "shared/data/sample_source.h"
#include "shared/model/network_shape.h"
#include "train/monitor/timeline.h"
#include "train/recipes.h"
#include "train/reduce/bucket_plan.h"
#include "train/run/checkpoint_interval.h"
#include "train/run/run_config.h"
#include "train/run/saving.h"
#include "train/step/detection_loss.h"

namespace retina {
namespace {

std::int64_t to_steps(const Span& span, std::int64_t steps_per_epoch) {
  return span.unit == Span::Unit::kSteps
             ? static_cast<std::int64_t>(span.count)
             : std::llround(span.count * static_cast<double>(steps_per_epoch));
}

constexpr int kMostImages = 65536;  // of a step
constexpr int kMostThreads = 1024;
constexpr int kMostPreview = 1000;  // samples on one page

[[noreturn]] void refuse(const std::string& option, const std::string& got,
                         const std::string& want) {
  throw Error(ErrorKind::kUsage, cat("--", option, ": bad value (got ", got, ", want ", want, ")"));
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
  if (o.recipe != "none" && recipe_task != o.task) {
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
    check("head-norm", o.head_norm != plain.head_norm);
    check("p6", o.p6 != plain.p6);
    check("anchor-sizes", o.anchor_sizes != plain.anchor_sizes);
    check("anchor-offset", o.anchor_offset != plain.anchor_offset);
    check("box-loss", o.box_loss != plain.box_loss);
    check("smooth-l1-beta", o.smooth_l1_beta != plain.smooth_l1_beta);
    check("box-target-std", o.box_target_std != plain.box_target_std);
    check("focal-alpha", o.focal_alpha != plain.focal_alpha);
    check("focal-gamma", o.focal_gamma != plain.focal_gamma);
    check("foreground-iou", o.foreground_iou != plain.foreground_iou);
    check("background-iou", o.background_iou != plain.background_iou);
    check("low-quality-matches", o.low_quality_matches != plain.low_quality_matches);
    check("box-visibility", o.augment.box_visibility.has_value());
    check("plateau-metric ap", o.plateau_metric == PlateauMetric::kAp);
    if (o.backbone == kCifarCnn) {
      check("min-sides", !o.min_sides_px.empty());
      check("trainable-layers", o.layers_to_train() != plain.layers_to_train());
      check("norm", o.norm.has_value());
      check("sync-bn", o.sync_bn);
    }
  } else {
    check("backbone cifar-cnn", o.backbone == kCifarCnn);
    check("label-smoothing", o.label_smoothing != 0);
    check("plateau-metric top1", o.plateau_metric == PlateauMetric::kTop1);
  }
  if (!meaningless.empty()) {
    throw Error(ErrorKind::kUsage,
                cat(meaningless, ": not with --task ", word,
                    o.backbone == kCifarCnn && o.classifies() ? " --backbone cifar-cnn" : ""),
                "leave it out");
  }
  if (!(o.label_smoothing >= 0 && o.label_smoothing < 1)) {
    refuse("label-smoothing", shortest(o.label_smoothing), "0 to below 1");
  }
}

}  // namespace

bool TrainOptions::from_scratch() const {
  return !names_weights(init);
}

ImageSize TrainOptions::synthetic_image_size() const {
  ImageSize size;
  char rest = 0;
  constexpr int kMost = SyntheticSource::kMostSidePx;
  const bool is_whole =
      std::sscanf(synthetic_size.c_str(), "%5dx%5d%c", &size.width, &size.height, &rest) == 2;
  if (!is_whole || std::min(size.width, size.height) < 1 ||
      std::max(size.width, size.height) > kMost) {
    refuse("synthetic-size", synthetic_size, cat("WIDTHxHEIGHT, each 1..", kMost));
  }
  return size;
}

void declare_options(Cli& cli, TrainOptions& o) {
  for (const auto& [former, name] : former_option_names()) cli.formerly(former, name);
  cli.group("Recipe");
  cli.preset("recipe", o.recipe, recipes(), "settings for every option that is not given");
  cli.choice("task", o.task, kTaskOptions,
             "detect: boxes with classes, a RetinaNet; classify: one class for each image");
  cli.group("Data");
  cli.option("train", o.train, "SHARDS", "folder that coco-pack wrote, to train on (required)");
  cli.option("validation", o.validation, "SHARDS", "folder to validate on at epoch ends");
  cli.option("output", o.output, "RUN", "folder for checkpoints, metrics and report (required)");
  cli.option("synthetic", o.synthetic, "COUNT",
             "speed test on COUNT made-up images instead of --train; needs no --output");
  cli.option("synthetic-size", o.synthetic_size, "WxH",
             "their size before resizing, a quarter of them upright");
  cli.option("min-side", o.min_side_px, "PX",
             "resize the shorter side to this; classify: side of the square that the network sees "
             "[800; classify 224, cifar-cnn 32]");
  cli.option("max-side", o.max_side_px, "PX",
             "but never the longer side past this; classify: the shorter side before validation "
             "takes the square from the middle [1333; classify 256, cifar-cnn 32]");
  cli.option("min-sides", o.min_sides_px, "PX,PX,...",
             "multi-scale: each step draws its shorter side from these");
  cli.choice("shuffle", o.shuffle, {{"sharded", Shuffle::kSharded}, {"global", Shuffle::kGlobal}},
             "sharded: each rank reads its own part of the shards; global: one order over all");
  cli.choice("sampler", o.sampler,
             {{"uniform", Sampler::kUniform}, {"class-balanced", Sampler::kClassBalanced}},
             "uniform: each image once a pass; class-balanced: those with rare classes more often");
  cli.option("repeat-threshold", o.repeat_threshold, "T",
             "class-balanced: a class in the share F of the images comes sqrt(T/F) times as often");
  cli.option(
      "max-bad-fraction", o.max_bad_fraction, "F",
      "largest part of the records that may turn out to be damaged; others take their place");
  declare_options(cli, o.augment);
  cli.group("Model (stored in every checkpoint)");
  cli.choice("backbone", o.backbone, plain_choices(classifier_names()),
             "feature extractor; cifar-cnn, Keras' small network, only classifies");
  cli.choice("norm", o.norm, kNorms,
             "batch norm of the backbone [batch; detect with --init: frozen]");
  cli.on_off("sync-bn", o.sync_bn,
             "batch norm over the images of all ranks, not of each rank's own");
  cli.option("norm-eps", o.norm_eps, "EPS", "added to the variance in batch norm");
  cli.choice("head-norm", o.head_norm, kHeadNorms, "GroupNorm in the heads (v2) or none (v1)");
  cli.choice("p6", o.p6, {{"auto", P6Source::kAuto}, {"c5", P6Source::kC5}, {"p5", P6Source::kP5}},
             "what level P6 is made from; auto: c5 with --head-norm group, else p5");
  cli.option("anchor-sizes", o.anchor_sizes, "PX,PX,PX,PX,PX", "base anchor of P3..P7");
  cli.option("anchor-offset", o.anchor_offset, "STRIDES",
             "where in its cell an anchor is centred: 0 torchvision, 0.5 keras-retinanet");
  cli.option("trainable-layers", o.trainable_layers, "0..5",
             "backbone stages that learn [5; detect with --init: 3]");
  cli.option("init", o.init, "RUN|CHECKPOINT",
             "start from these weights, of a run's folder from its best; classes are matched by "
             "name; none: from scratch, even where a recipe requires a pretrained backbone");
  cli.group("Loss");
  cli.choice("box-loss", o.box_loss,
             {{"l1", BoxLossKind::kL1},
              {"smooth-l1", BoxLossKind::kSmoothL1},
              {"giou", BoxLossKind::kGiou}},
             "regression loss (v1: l1, v2: giou)");
  cli.option("smooth-l1-beta", o.smooth_l1_beta, "BETA",
             "where smooth-l1 turns from quadratic to l1");
  cli.option("box-target-std", o.box_target_std, "STD", "box offsets are divided by this");
  cli.option("focal-alpha", o.focal_alpha, "ALPHA", "weight of foreground in the focal loss");
  cli.option("focal-gamma", o.focal_gamma, "GAMMA", "how strongly easy anchors are discounted");
  cli.option("foreground-iou", o.foreground_iou, "IOU",
             "anchors of at least this overlap learn a box");
  cli.option("background-iou", o.background_iou, "IOU", "anchors below it learn background");
  cli.on_off("low-quality-matches", o.low_quality_matches,
             "the best anchor of a box learns it whatever the overlap");
  cli.option("label-smoothing", o.label_smoothing, "S",
             "classify: share of the target that is spread over all classes");
  cli.group("Length");
  cli.option("epochs", o.epochs, "N",
             "passes over the data, or epochs of --steps-per-epoch [26; keras-retinanet 50, "
             "imagenet-resnet50 90, cifar10-keras 25]");
  cli.option("steps", o.steps, "N", "global steps in all, instead of --epochs");
  cli.option("steps-per-epoch", o.steps_per_epoch, "N",
             "short epochs of N steps, wherever passes end; 0: an epoch is a pass");
  cli.option("early-stop", o.early_stop, "N",
             "end after N validations without a better AP or top-1 accuracy; 0: never");
  cli.option("images-per-step", o.images_per_step, "G",
             "global batch over all ranks [16, or by --images-per-rank]");
  cli.option("images-per-rank", o.images_per_rank, "N",
             "times the number of ranks: the global batch where --images-per-step is not given");
  cli.option("micro-batch", o.micro_batch, "N",
             "images that a rank sends through the network at once; 0: its whole share");
  cli.group("Optimiser");
  cli.choice("optimizer", o.optimizer, kOptimizers, "update rule");
  cli.option("lr", o.lr, "LR",
             "base learning rate [sgd 0.01, adam and adamw 0.0001, rmsprop 0.001]");
  cli.choice("lr-scaling", o.lr_scaling, kLrScalings,
             "linear: times --images-per-step over the recipe's (16; keras-retinanet 1, "
             "imagenet-resnet50 256, cifar10-keras 32)");
  cli.option("momentum", o.momentum, "M", "of sgd");
  cli.option("rho", o.rho, "RHO", "rmsprop: decay of the mean of squared gradients");
  cli.option("weight-decay", o.weight_decay, "D", "[adamw 0.05, others 0.0001]");
  cli.option("norm-weight-decay", o.norm_weight_decay, "D",
             "of normalisation layers [as --weight-decay]");
  cli.option("clip-norm", o.clip_norm, "NORM", "largest global gradient norm; 0: no clipping");
  cli.option("ema", o.ema, "DECAY",
             "moving average of the weights, e.g. 0.999: what is validated and saved; 0: none");
  cli.choice("lr-schedule", o.lr_schedule, kSchedules, "after the warm-up");
  cli.option("lr-drop-at", o.lr_drop_at, "SPANS", "step schedule: when the rate drops");
  cli.option("lr-drop-factor", o.lr_drop_factor, "F", "step and plateau schedules: by how much");
  cli.option("lr-decay", o.lr_decay, "D",
             "inverse-time schedule: the rate is divided by 1 + D times the steps done");
  cli.choice("plateau-metric", o.plateau_metric, kPlateauMetrics,
             "plateau schedule: drops when this stalls");
  cli.option("plateau-patience", o.plateau_patience, "N",
             "plateau schedule: epochs without a better figure");
  cli.option("warmup-steps", o.warmup_steps, "N", "linear warm-up");
  cli.option("warmup-factor", o.warmup_factor, "F", "rate of the first step over the base rate");
  cli.group("Run");
  cli.choice("device", o.device, kDeviceChoices, "auto: a GPU if there is one");
  cli.option("expect-ranks", o.expect_ranks, "N",
             "refuse to start with a different number; 0: any");
  cli.option("stall-timeout", o.watch.stall_timeout_s, "SECONDS",
             "end the job when others wait this long for a rank that is alive; at least 10 steps");
  cli.choice("precision", o.precision, kPrecisions, "of convolutions; weights stay fp32");
  cli.on_off(
      "tf32", o.tf32,
      "on: GPUs may round the factors of fp32 products to 10 bits, several times as fast; off: "
      "IEEE fp32. Validation always is");
  cli.choice("wire", o.wire, kWireTypes, "gradients between ranks; 16 bit halves what travels");
  cli.on_off("deterministic-reduce", o.deterministic_reduce,
             "on: gradients are summed in rank order, the same bits for any --bucket-mb");
  cli.on_off("overlap-reduce", o.overlap_reduce,
             "on: gradients travel while backward computes the others");
  cli.option("bucket-mb", o.bucket_mb, "auto|N",
             "gradients travel in buckets of N MiB; auto: 8, or as the run began");
  cli.option("seed", o.seed, "N", "of weights, order and augmentation");
  cli.option("scratch", o.scratch, "DIR",
             "local disk: checkpoints are built here before they go to --output, and the shards "
             "that a rank reads are copied here [beside the output; shards that cannot be mapped: "
             "$TMPDIR]");
  cli.choice("stage", o.stage_always, {{"auto", false}, {"always", true}},
             "copy training shards to --scratch while they are in use: auto: from network mounts "
             "and mounts without mmap; always: from any disk");
  cli.bytes("stage-limit", o.stage_limit_bytes,
            "largest size of all these copies on a node, never more than 80 % of what is free in "
            "--scratch; 0: none ahead of use [80 %]");
  cli.option("checkpoint-every", o.checkpoint_every, "SPAN",
             "1epoch, 500steps or 10min; auto: from what one costs and --mtbf, at most 1 % of the "
             "time, and at each epoch's end");
  cli.option("mtbf", o.mtbf, "DURATION",
             "mean time between failures of the whole job: 90s, 30min, 4h, 2days");
  cli.option("check-replicas-every", o.check_replicas_every, "STEPS",
             "compare the ranks' weights, also before each checkpoint; 0: never");
  cli.choice(
      "on-nan", o.on_nan, {{"stop", OnNan::kStop}, {"rollback", OnNan::kRollback}},
      "a loss that is not finite: end with 1, or return to the last checkpoint and skip that step");
  cli.option("keep", o.keep, "K", "newest checkpoints to keep, besides the best");
  cli.option(
      "resume", o.resume, "auto|never|FILE",
      "auto: continue what is in --output; never: refuse if something is; FILE: begin there");
  cli.flag("overwrite", o.overwrite, "throw away the run in --output and start again");
  cli.option("validate-every", o.validate_every_epochs, "EPOCHS", "0: only at the end");
  cli.option("validation-images", o.validation_images, "N", "validate on the first N; 0: all");
  cli.option("threads", o.threads, "N",
             "decode threads per rank; 0: one, and another each time the network waits for "
             "images, up to "
             "the node's cores shared among its ranks");
  cli.option("compute-threads", o.compute_threads, "N",
             "CPU threads for the network per rank; 0: the node's cores shared among its ranks");
  cli.group("Insight");
  cli.option("tensorboard", o.tensorboard, "DIR",
             "write all figures of steps and validations, and images of these, for `tensorboard "
             "--logdir DIR`; a folder for each run");
  cli.option("timeline", o.timeline, "FILE",
             "write what every rank did when, for ui.perfetto.dev or about:tracing");
  cli.option("timeline-steps", o.timeline_steps, "FROM:TO",
             "which steps, counted from 1 at this start of the program");
  cli.option("scaling-report", o.scaling_report, "DIR",
             "add this run's speed to a report on how training scales with the ranks");
  cli.option("preview", o.preview, "N",
             "write the run's first N samples, as the model will see them, to preview.html in "
             "--output, and end");
  cli.validate([&o] { o.validate(); });
}

void TrainOptions::validate() const {
  // What to train on and from.
  check_range("synthetic", synthetic, 0, 10'000'000);
  synthetic_image_size();
  for (const auto& [name, value] : {std::pair{"train", train}, std::pair{"output", output}}) {
    if (value.empty() && synthetic == 0) {
      throw Error(ErrorKind::kUsage, cat("--", name, " is missing"), "run retina-train --help");
    }
  }
  if (synthetic > 0 && !(train.empty() && validation.empty())) {
    throw Error(ErrorKind::kUsage, "--synthetic cannot be combined with --train or --validation",
                "leave one or the other out");
  }
  check_options_of_task(*this);
  if (init.empty() && !backbone_hint(recipe).empty() && synthetic == 0) {
    throw Error(ErrorKind::kConfig,
                cat("--recipe ", recipe, ": begins with a pretrained backbone, --init is missing"),
                backbone_hint(recipe));
  }
  if (stage_always && scratch.empty() && synthetic == 0) {
    throw Error(ErrorKind::kUsage, "--stage always: --scratch is missing",
                "give --scratch DIR, a folder on a local disk");
  }
  // Images and model.
  const int least_side = classifies() ? 8 : 32;
  at_least("min-side", min_side(), least_side);
  at_least("max-side", max_side(), min_side());
  for (const auto side : min_sides_px) {
    if (side < least_side || side > max_side()) {
      refuse("min-sides", cat(side), cat(least_side, " to --max-side, ", max_side()));
    }
  }
  augment.options(augment_set());
  if (!(repeat_threshold > 0 && repeat_threshold <= 1)) {
    refuse("repeat-threshold", shortest(repeat_threshold), "above 0 to 1");
  }
  if (sampler == Sampler::kClassBalanced && synthetic > 0) {
    throw Error(ErrorKind::kUsage, "--sampler class-balanced: made-up images have no rare classes",
                "give --train SHARDS, or leave one of the two out");
  }
  if (!(max_bad_fraction >= 0 && max_bad_fraction <= 1)) {
    refuse("max-bad-fraction", shortest(max_bad_fraction), "0 to 1");
  }
  if (sync_bn && norm_kind() == Norm::kFrozen) {
    throw Error(ErrorKind::kConfig, "--sync-bn on: a frozen norm has no statistics to share",
                norm ? "give --sync-bn off or --norm batch"
                     : "give --sync-bn off or --norm batch: --init freezes it by default");
  }
  at_least("norm-eps", norm_eps, 0);
  if (trainable_layers && (*trainable_layers < 0 || *trainable_layers > 5)) {
    refuse("trainable-layers", cat(*trainable_layers), "0 to 5");
  }
  // Length, and what decides it.
  if (epochs && steps) {
    throw Error(ErrorKind::kUsage, "--epochs and --steps are both given", "keep one of them");
  }
  check_range("epochs", epochs.value_or(1), 1, kMostInSpan);
  check_range("steps", steps.value_or(1), 1, kMostInSpan);
  check_range("steps-per-epoch", steps_per_epoch, 0, kMostInSpan);
  at_least("early-stop", early_stop, 0);
  const std::string judge =
      early_stop > 0 ? "--early-stop"
                     : cat("--plateau-metric ", word_of(kPlateauMetrics, plateau_metric));
  if (validation.empty() && (early_stop > 0 || watches_validation())) {
    throw Error(ErrorKind::kUsage, cat(judge, ": there is no --validation set to judge by"),
                "give --validation SHARDS");
  }
  if (validate_every_epochs == 0 && (early_stop > 0 || watches_validation())) {
    throw Error(ErrorKind::kUsage,
                cat(judge, ": with --validate-every 0 there is no validation to judge by"),
                "give --validate-every 1 or more");
  }
  // Batch and update.
  check_range("images-per-step", step_images(), 1, kMostImages);
  check_range("images-per-rank", images_per_rank, 0, kMostImages);
  check_range("micro-batch", micro_batch, 0, kMostImages);
  if (lr && !(*lr > 0)) refuse("lr", shortest(*lr), "above 0");
  if (!(momentum >= 0 && momentum < 1)) refuse("momentum", shortest(momentum), "0 to below 1");
  // Closer to 1, an f32 no longer tells it from 1.
  if (!(rho >= 0 && rho <= 0.999999)) refuse("rho", shortest(rho), "0 to 0.999999");
  at_least("weight-decay", weight_decay.value_or(0), 0);
  at_least("norm-weight-decay", norm_weight_decay.value_or(0), 0);
  at_least("clip-norm", clip_norm, 0);
  if (!(ema >= 0 && ema < 1)) refuse("ema", shortest(ema), "0 to below 1");
  at_least("lr-drop-factor", lr_drop_factor, 0);
  if (lr_decay && !(*lr_decay > 0)) refuse("lr-decay", shortest(*lr_decay), "above 0");
  if (lr_schedule == ScheduleKind::kInverseTime && !lr_decay) {
    throw Error(ErrorKind::kUsage, "--lr-schedule inverse-time: --lr-decay is missing",
                "give --lr-decay D; the rate is halved after 1/D steps");
  }
  at_least("plateau-patience", plateau_patience, 1);
  // The job, its checkpoints and validations.
  at_least("expect-ranks", expect_ranks, 0);
  at_least("stall-timeout", watch.stall_timeout_s, 1);
  check_range("warmup-steps", warmup_steps, 0, kMostInSpan);
  at_least("warmup-factor", warmup_factor, 0);
  check_range("keep", keep, 1, 1'000'000);
  at_least("validate-every", validate_every_epochs, 0);
  at_least("validation-images", static_cast<double>(validation_images), 0);
  check_range("threads", threads, 0, kMostThreads);
  check_range("compute-threads", compute_threads, 0, kMostThreads);
  at_least("check-replicas-every", static_cast<double>(check_replicas_every), 0);
  parse_step_window("timeline-steps", timeline_steps);
  check_range("preview", preview, 0, kMostPreview);
  if (preview > 0 && synthetic > 0) {
    throw Error(ErrorKind::kUsage, "--preview: made-up images show nothing",
                "give --train SHARDS, or leave one of the two out");
  }
  if (!checkpoint_auto()) parse_span("checkpoint-every", checkpoint_every);
  parse_duration_s("mtbf", mtbf);
  if (resume == "true" || resume == "True" || resume == "1" || resume == "yes") {
    throw Error(ErrorKind::kUsage,
                cat("--resume: bad value (got ", resume, ", want auto, never or a checkpoint)"),
                "leave it out: the same command again continues what is in --output");
  }
  bucket_options();
  // Schedule, model and loss check their own values.
  for (const auto& text : lr_drop_at) {
    if (parse_span("lr-drop-at", text).unit == Span::Unit::kMinutes) {
      refuse("lr-drop-at", text, "epochs or steps");
    }
  }
  model_config(1).validate();
  loss_options().validate();
}

bool TrainOptions::watches_validation() const {
  return lr_schedule == ScheduleKind::kPlateau && plateau_metric != PlateauMetric::kLoss;
}

TrainOptions TrainOptions::for_ranks(int rank_count) const {
  TrainOptions result = *this;
  result.images_per_step =
      images_per_step || images_per_rank == 0 ? step_images() : images_per_rank * rank_count;
  return result;
}

ModelConfig TrainOptions::model_config(int class_count) const {
  ModelConfig config;
  config.task = task;
  config.backbone = backbone;
  config.class_count = class_count;
  config.norm = norm_kind();
  config.norm_eps = norm_eps;
  config.head_norm = head_norm;
  config.p6_from_c5 = p6 == P6Source::kAuto ? head_norm == HeadNorm::kGroup : p6 == P6Source::kC5;
  config.anchor_sizes = anchor_sizes;
  config.anchor_offset = anchor_offset;
  config.min_side_px = min_side();
  config.max_side_px = max_side();
  if (backbone == kCifarCnn) {  // Keras' example divides by 255 alone
    config.image_mean = {0, 0, 0};
    config.image_std = {1, 1, 1};
  }
  return config;
}

OptimizerOptions TrainOptions::optimizer_options() const {
  OptimizerOptions result;
  result.kind = optimizer;
  result.momentum = momentum;
  result.rho = rho;
  result.weight_decay = weight_decay.value_or(optimizer == OptimizerKind::kAdamW ? 0.05 : 1e-4);
  result.norm_weight_decay = norm_weight_decay;
  return result;
}

LossOptions TrainOptions::loss_options() const {
  return {.focal_alpha = focal_alpha,
          .focal_gamma = focal_gamma,
          .box = {.kind = box_loss, .smooth_l1_beta = smooth_l1_beta, .target_std = box_target_std},
          .match = {.foreground_iou = foreground_iou,
                    .background_iou = background_iou,
                    .low_quality_matches = low_quality_matches}};
}

BucketOptions TrainOptions::bucket_options() const {
  BucketOptions result{.wire = {.type = wire, .ordered = deterministic_reduce},
                       .overlap = overlap_reduce};
  if (bucket_mb == "auto") return result;
  double mebibytes = 0;
  const char* const end = bucket_mb.data() + bucket_mb.size();
  const auto parsed = std::from_chars(bucket_mb.data(), end, mebibytes);
  if (parsed.ec != std::errc() || parsed.ptr != end || !(mebibytes > 0 && mebibytes <= 1e5)) {
    refuse("bucket-mb", bucket_mb, "auto or a size in MiB, e.g. 4");
  }
  result.bucket_bytes = static_cast<std::size_t>(std::ceil(mebibytes * (1 << 20)));
  return result;
}

EpochPlanOptions TrainOptions::plan_options() const {
  return {.seed = seed,
          .images_per_step = step_images(),
          .shuffle = shuffle,
          .sampler = sampler,
          .repeat_threshold = repeat_threshold,
          .framing = classifies() ? Framing::kSquare : Framing::kWhole,
          .min_side_px = min_side(),
          .max_side_px = max_side(),
          .min_sides_px = {min_sides_px.begin(), min_sides_px.end()},
          .augment = augment.options(augment_set())};
}

SavingOptions TrainOptions::saving_options() const {
  SavingOptions result{.mtbf = mtbf,
                       .keep = keep,
                       .writes = writes(),
                       .folder = output,
                       .scratch = scratch,
                       .names_last_step = steps.has_value()};
  if (!checkpoint_auto()) result.period = parse_span("checkpoint-every", checkpoint_every);
  return result;
}

double TrainOptions::base_lr() const {
  if (lr) return *lr;
  switch (optimizer) {
    case OptimizerKind::kSgd:
      return 0.01;
    case OptimizerKind::kRmsprop:
      return 1e-3;  // Keras'; Tieleman & Hinton 2012
    default:
      return 1e-4;
  }
}

double TrainOptions::effective_lr() const {
  if (lr_scaling == LrScaling::kNone) return base_lr();
  return base_lr() * step_images() / facts_of_recipe(recipe).reference_images_per_step;
}

std::int64_t TrainOptions::total_steps(std::int64_t epoch_steps) const {
  if (steps) return *steps;
  return epochs.value_or(synthetic > 0 ? 1 : facts_of_recipe(recipe).epochs) * epoch_steps;
}

AdaptiveScheduleOptions TrainOptions::adaptive_schedule(std::int64_t epoch_steps) const {
  AdaptiveScheduleOptions result;
  result.plateau_metric = plateau_metric;
  result.plateau_patience = plateau_patience;
  result.early_stop_patience = early_stop;
  ScheduleOptions& schedule = result.schedule;
  schedule.kind = lr_schedule;
  schedule.base_lr = effective_lr();
  schedule.warmup_steps = warmup_steps;
  schedule.warmup_factor = warmup_factor;
  for (const auto& text : lr_drop_at) {
    schedule.drop_steps.push_back(to_steps(parse_span("lr-drop-at", text), epoch_steps));
  }
  schedule.drop_factor = lr_drop_factor;
  schedule.total_steps = total_steps(epoch_steps);
  schedule.decay = lr_decay.value_or(0);
  return result;
}

}  // namespace retina
