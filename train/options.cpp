#include "train/options.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

#include "shared/base/cli.h"
#include "shared/base/error.h"
#include "shared/data/sample_source.h"
#include "shared/model/network_shape.h"
#include "train/monitor/timeline.h"
#include "train/pretrained.h"
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
    check("anchor-sizes", o.model.anchor_sizes != plain.model.anchor_sizes);
    check("anchor-offset", o.model.anchor_offset != plain.model.anchor_offset);
    check("box-loss", o.loss.box.kind != plain.loss.box.kind);
    check("smooth-l1-beta", o.loss.box.smooth_l1_beta != plain.loss.box.smooth_l1_beta);
    check("box-target-std", o.loss.box.target_std != plain.loss.box.target_std);
    check("focal-alpha", o.loss.focal_alpha != plain.loss.focal_alpha);
    check("focal-gamma", o.loss.focal_gamma != plain.loss.focal_gamma);
    check("foreground-iou", o.loss.match.foreground_iou != plain.loss.match.foreground_iou);
    check("background-iou", o.loss.match.background_iou != plain.loss.match.background_iou);
    check("low-quality-matches",
          o.loss.match.low_quality_matches != plain.loss.match.low_quality_matches);
    check("box-visibility", o.data.augment.box_visibility.has_value());
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
  const PretrainedWeights* const backbone = find_pretrained(facts_of_recipe(o.recipe).backbone);
  if (o.model.init.empty() && backbone != nullptr && !is_synthetic) {
    throw Error(
        ErrorKind::kConfig,
        cat("--recipe ", o.recipe, ": begins with a pretrained backbone, --init is missing"),
        cat(fetch_command(*backbone, o.data.first_train()), ", then --init ", backbone->name,
            "; --init none trains from scratch"));
  }
  if (o.data.stage.always && o.scratch.empty() && !is_synthetic) {
    throw Error(ErrorKind::kUsage, "--stage always: --scratch is missing",
                "give --scratch DIR, a folder on a local disk");
  }
}

void check_images(const TrainOptions& o) {
  const TrainOptions::Data& data = o.data;
  const int least_side = o.classifies() ? 8 : 32;
  at_least("min-side", o.min_side(), least_side);
  at_least("max-side", o.max_side(), o.min_side());
  for (const auto side : data.min_sides_px) {
    if (side < least_side || side > o.max_side()) {
      refuse("min-sides", cat(side), cat(least_side, " to --max-side, ", o.max_side()));
    }
  }
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
  const bool stops_early = rule.early_stop_patience > 0;
  if (!stops_early && !o.watches_validation()) return;
  const std::string judge =
      stops_early ? "--early-stop"
                  : cat("--plateau-metric ", word_of(kPlateauMetrics, rule.plateau_metric));
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

void declare_data(Cli& cli, TrainOptions& o) {
  cli.group("Data");
  cli.list(
      "train", o.data.train, "SHARDS...",
      "folder that coco-pack wrote, to train on (required); several, as in --train A --train B, "
      "are trained on as one, their classes matched by name");
  cli.option("validation", o.validation.shards, "SHARDS", "folder to validate on at epoch ends");
  cli.option("output", o.output, "RUN", "folder for checkpoints, metrics and report (required)");
  cli.option("synthetic", o.data.synthetic, "COUNT",
             "speed test on COUNT synthetic images instead of --train; needs no --output");
  cli.option("synthetic-size", o.data.synthetic_size, "WxH",
             "their size before resizing, a quarter of them upright");
  cli.option("min-side", o.data.min_side_px, "PX",
             "resize the shorter side to this; classify: side of the square that the network sees "
             "[800; classify 224, cifar-cnn 32]");
  cli.option("max-side", o.data.max_side_px, "PX",
             "but never the longer side past this; classify: the shorter side before validation "
             "takes the square from the middle [1333; classify 256, cifar-cnn 32]");
  cli.option("min-sides", o.data.min_sides_px, "PX,PX,...",
             "multi-scale: each step draws its shorter side from these");
  cli.choice("shuffle", o.data.shuffle,
             {{"sharded", Shuffle::kSharded}, {"global", Shuffle::kGlobal}},
             "sharded: each rank reads its own part of the shards; global: one order over all");
  cli.choice(
      "sampler", o.data.sampler,
      {{"uniform", Sampler::kUniform}, {"class-balanced", Sampler::kClassBalanced}},
      "uniform: each image once per epoch; class-balanced: images with rare classes more often");
  cli.option("repeat-threshold", o.data.repeat_threshold, "T",
             "class-balanced: a class in the share F of the images comes sqrt(T/F) times as often");
  cli.option("max-bad-fraction", o.data.max_bad_fraction, "F",
             "largest share of the records that may be damaged; other records replace them");
  declare_options(cli, o.data.augment);
}

void declare_model(Cli& cli, TrainOptions& o) {
  cli.group("Model (stored in every checkpoint)");
  cli.choice("backbone", o.model.backbone, plain_choices(classifier_names()),
             "feature extractor; cifar-cnn, Keras' small network, only classifies");
  cli.choice("norm", o.model.norm, kNorms,
             "batch norm of the backbone [batch; detect with --init: frozen]");
  cli.on_off("sync-bn", o.model.sync_bn,
             "batch norm over the images of all ranks, not of each rank's own");
  cli.option("norm-eps", o.model.norm_eps, "EPS", "added to the variance in batch norm");
  cli.choice("head-norm", o.model.head_norm, kHeadNorms,
             "GroupNorm in the heads (v2) or none (v1)");
  cli.choice("p6", o.model.p6,
             {{"auto", P6Source::kAuto}, {"c5", P6Source::kC5}, {"p5", P6Source::kP5}},
             "what level P6 is made from; auto: c5 with --head-norm group, else p5");
  cli.option_or_auto("anchor-sizes", o.model.anchor_sizes, "PX,PX,PX,PX,PX",
                     "base anchor of P3..P7; auto: those that fit the training set's boxes best at "
                     "--min-side and --max-side");
  cli.option("anchor-offset", o.model.anchor_offset, "STRIDES",
             "where in its cell an anchor is centred: 0 torchvision, 0.5 keras-retinanet");
  cli.option("trainable-layers", o.model.trainable_layers, "0..5",
             "backbone stages that are trained [5; detect with --init: 3]");
  cli.option(
      "init", o.model.init, "RUN|CHECKPOINT|NAME",
      cat("start from these weights: of a run folder, its best checkpoint; NAME, of those that "
          "`make weights` fetches: ",
          pretrained_names(),
          "; classes are matched by name, and the model's options that are not given follow "
          "the weights; none: from scratch, even where a recipe requires a pretrained "
          "backbone"));
}

void declare_loss(Cli& cli, TrainOptions& o) {
  cli.group("Loss");
  cli.choice("box-loss", o.loss.box.kind,
             {{"l1", BoxLossKind::kL1},
              {"smooth-l1", BoxLossKind::kSmoothL1},
              {"giou", BoxLossKind::kGiou}},
             "regression loss (v1: l1, v2: giou)");
  cli.option("smooth-l1-beta", o.loss.box.smooth_l1_beta, "BETA",
             "where smooth-l1 turns from quadratic to l1");
  cli.option("box-target-std", o.loss.box.target_std, "STD", "box offsets are divided by this");
  cli.option("focal-alpha", o.loss.focal_alpha, "ALPHA", "weight of foreground in the focal loss");
  cli.option("focal-gamma", o.loss.focal_gamma, "GAMMA",
             "how strongly easy anchors are discounted");
  cli.option("foreground-iou", o.loss.match.foreground_iou, "IOU",
             "anchors of at least this overlap learn a box");
  cli.option("background-iou", o.loss.match.background_iou, "IOU",
             "anchors below it learn background");
  cli.on_off("low-quality-matches", o.loss.match.low_quality_matches,
             "the best anchor of a box learns it whatever the overlap");
  cli.option("label-smoothing", o.label_smoothing, "S",
             "classify: share of the target that is spread over all classes");
}

void declare_length(Cli& cli, TrainOptions& o) {
  cli.group("Length");
  cli.option(
      "epochs", o.length.epochs, "N",
      "epochs: every image once, or --steps-per-epoch steps [26, or more for 1500 steps; "
      "small: 26 or 3000 steps, finetune: 12 or 1000 steps; none and torchvision-v1 and v2 26, "
      "keras-retinanet 50, imagenet-resnet50 90, cifar10-keras 25]");
  cli.option("steps", o.length.steps, "N", "global steps in all, instead of --epochs");
  cli.option("steps-per-epoch", o.length.steps_per_epoch, "N",
             "epochs of N steps, whatever the size of the data; 0: an epoch is every image once");
  cli.option("early-stop", o.schedule.rule.early_stop_patience, "N",
             "end after N validations without a better AP or top-1 accuracy; 0: never");
  cli.option("images-per-step", o.length.images_per_step, "G",
             "global batch over all ranks [16, or by --images-per-rank]");
  cli.option("images-per-rank", o.length.images_per_rank, "N",
             "times the number of ranks: the global batch where --images-per-step is not given");
  cli.option("micro-batch", o.length.micro_batch, "auto|N",
             "images that a rank sends through the network at once, which is what batch norm sees; "
             "auto: its whole share of a step, or as many as fit into memory; 0: its whole share");
}

void declare_optimizer_and_schedule(Cli& cli, TrainOptions& o) {
  cli.group("Optimiser");
  cli.choice("optimizer", o.optimizer.rule.kind, kOptimizers, "update rule");
  cli.option("lr", o.optimizer.lr, "LR",
             "base learning rate [sgd 0.01, adam and adamw 0.0001, rmsprop 0.001]");
  cli.choice("lr-scaling", o.optimizer.lr_scaling, kLrScalings,
             "linear: times --images-per-step over the recipe's (16; keras-retinanet 1, "
             "imagenet-resnet50 256, cifar10-keras 32); without --recipe and --lr: linear");
  cli.option("momentum", o.optimizer.rule.momentum, "M", "of sgd");
  cli.option("rho", o.optimizer.rule.rho, "RHO", "rmsprop: decay of the mean of squared gradients");
  cli.option("weight-decay", o.optimizer.weight_decay, "D", "[adamw 0.05, others 0.0001]");
  cli.option("norm-weight-decay", o.optimizer.rule.norm_weight_decay, "D",
             "of normalisation layers [as --weight-decay]");
  cli.option("clip-norm", o.optimizer.clip_norm, "NORM",
             "largest global gradient norm; 0: no clipping");
  cli.option("ema", o.optimizer.ema, "DECAY",
             "moving average of the weights, e.g. 0.999: what is validated and saved; 0: none");
  cli.choice("lr-schedule", o.schedule.rule.schedule.kind, kSchedules, "after the warm-up");
  cli.option("lr-drop-at", o.schedule.drop_at, "SPANS",
             "step schedule: when the rate drops: epochs, steps, or 2/3 for a share of the run; "
             "without --recipe: 16/26,22/26");
  cli.option("lr-drop-factor", o.schedule.rule.schedule.drop_factor, "F",
             "step and plateau schedules: by how much");
  cli.option("lr-decay", o.schedule.decay, "D",
             "inverse-time schedule: the rate is divided by 1 + D times the steps done");
  cli.choice("plateau-metric", o.schedule.rule.plateau_metric, kPlateauMetrics,
             "plateau schedule: the metric that must improve");
  cli.option("plateau-patience", o.schedule.rule.plateau_patience, "N",
             "plateau schedule: epochs without improvement");
  cli.option_or_auto(
      "warmup-steps", o.schedule.warmup_steps, "N",
      "linear warm-up; auto, and without --recipe: a tenth of the run, at most 1000");
  cli.option("warmup-factor", o.schedule.rule.schedule.warmup_factor, "F",
             "rate of the first step over the base rate");
}

void declare_run(Cli& cli, TrainOptions& o) {
  cli.group("Run");
  cli.choice("device", o.compute.device, kDeviceChoices, "auto: a GPU if there is one");
  cli.option("expect-ranks", o.distribution.expect_ranks, "N",
             "refuse to start with a different number; 0: any");
  cli.option("stall-timeout", o.distribution.watch.stall_timeout_s, "SECONDS",
             "end the job when others wait this long for a rank that is alive; at least 10 steps");
  cli.choice("precision", o.compute.precision, kPrecisions, "of convolutions; weights stay fp32");
  cli.on_off(
      "tf32", o.compute.tf32,
      "on: TF32 for fp32 products on GPUs, several times as fast; off: IEEE fp32. Validation "
      "always computes in IEEE fp32");
  cli.choice("wire", o.distribution.buckets.wire.type, kWireTypes,
             "gradients between ranks; 16 bit halves what travels");
  cli.on_off("deterministic-reduce", o.distribution.buckets.wire.ordered,
             "on: gradients are summed in rank order, the same bits for any --bucket-mb");
  cli.on_off("overlap-reduce", o.distribution.buckets.overlap,
             "on: gradients travel while backward computes the others");
  cli.option("bucket-mb", o.distribution.bucket_mb, "auto|N",
             "gradients travel in buckets of N MiB; auto: 8, or as the run began");
  cli.option("seed", o.seed, "N", "of weights, order and augmentation");
}

// The rest of the group.
void declare_checkpoints_and_validation(Cli& cli, TrainOptions& o) {
  cli.option("scratch", o.scratch, "DIR",
             "local disk: checkpoints are built here before they go to --output, and the shards "
             "that a rank reads are copied here [beside the output; shards that cannot be mapped: "
             "$TMPDIR]");
  cli.choice("stage", o.data.stage.always, {{"auto", false}, {"always", true}},
             "copy training shards to --scratch while they are in use: auto: from network mounts "
             "and mounts without mmap; always: from any disk");
  cli.bytes("stage-limit", o.data.stage.limit_bytes,
            "largest size of all these copies on a node, never more than 80 % of what is free in "
            "--scratch; 0: none ahead of use [80 %]");
  cli.option("checkpoint-every", o.checkpoints.every, "SPAN",
             "1epoch, 500steps or 10min; auto: from what one costs and --mtbf, at most 1 % of the "
             "time, and at each epoch's end");
  cli.option("mtbf", o.checkpoints.mtbf, "DURATION",
             "mean time between failures of the whole job: 90s, 30min, 4h, 2days");
  cli.option("check-replicas-every", o.distribution.check_replicas_every, "STEPS",
             "compare the ranks' weights, also before each checkpoint; 0: never");
  cli.choice(
      "on-nan", o.checkpoints.on_nan, {{"stop", OnNan::kStop}, {"rollback", OnNan::kRollback}},
      "a loss that is not finite: end with 1, or return to the last checkpoint and skip that step");
  cli.option("keep", o.checkpoints.keep, "K", "newest checkpoints to keep, besides the best");
  cli.option(
      "resume", o.checkpoints.resume, "auto|never|FILE",
      "auto: continue what is in --output; never: refuse if something is; FILE: begin there");
  cli.flag("overwrite", o.checkpoints.overwrite, "discard the run in --output and start again");
  cli.option("validate-every", o.validation.every_epochs, "EPOCHS", "0: only at the end");
  cli.option("validation-images", o.validation.images, "N", "validate on the first N; 0: all");
  cli.option("threads", o.data.decode_threads, "N",
             "decode threads per rank; 0: one, and another each time the network waits for "
             "images, up to "
             "the node's cores shared among its ranks");
  cli.option("compute-threads", o.compute.threads, "N",
             "CPU threads for the network per rank; 0: the node's cores shared among its ranks");
}

void declare_monitoring(Cli& cli, TrainOptions& o) {
  cli.group("Monitoring");
  cli.option(
      "tensorboard", o.monitoring.tensorboard, "DIR",
      "write all metrics of steps and validations, and images of validations, for `tensorboard "
      "--logdir DIR`; a folder for each run");
  cli.option("timeline", o.monitoring.timeline, "FILE",
             "write what every rank did when, for ui.perfetto.dev or about:tracing");
  cli.option("timeline-steps", o.monitoring.timeline_steps, "FROM:TO",
             "which steps, counted from 1 at this start of the program");
  cli.option("scaling-report", o.monitoring.scaling_report, "DIR",
             "add this run's speed to a report on how training scales with the ranks");
  cli.option("preview", o.monitoring.preview, "N",
             "write the run's first N samples, as the model will see them, to preview.html in "
             "--output, and end");
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

void declare_options(Cli& cli, TrainOptions& o) {
  for (const auto& [former, name] : former_option_names()) cli.formerly(former, name);
  cli.group("Recipe");
  cli.preset("recipe", o.recipe, recipes(), "settings for every option that is not given");
  cli.choice("task", o.task, kTaskOptions,
             "detect: boxes with classes, a RetinaNet; classify: one class for each image");
  declare_data(cli, o);
  declare_model(cli, o);
  declare_loss(cli, o);
  declare_length(cli, o);
  declare_optimizer_and_schedule(cli, o);
  declare_run(cli, o);
  declare_checkpoints_and_validation(cli, o);
  declare_monitoring(cli, o);
  cli.validate([&o] { o.validate(); });
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
  loss.validate();
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
          .framing = classifies() ? Framing::kSquare : Framing::kWhole,
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
  result.warmup_steps = schedule.warmup_steps.value_or(default_warmup_steps(run.total_steps));
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
