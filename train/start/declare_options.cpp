#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/checkpoint/pretrained.h"
#include "shared/cli/cli.h"
#include "shared/cli/foreign_names.h"
#include "shared/model/network_shape.h"
#include "train/run/run_config.h"
#include "train/start/options.h"
#include "train/start/recipes.h"

namespace retina {
namespace {

constexpr unsigned kClassifySmall = 4;  // by cifar-cnn
constexpr int kMostPreview = 1000;      // samples on one page

void declare_data(Cli& cli, TrainOptions& o) {
  cli.group("Data");
  cli.urls({"train", "validation"});
  cli.list("train", o.data.train, "SHARDS...",
           "folder that coco-pack wrote, or its URL (https://, azure://, s3://), to train on "
           "(required); several, as in --train A --train B, are trained on as one, their classes "
           "matched by name",
           {.may_change = true,
            .foreign = "data dataset data-path data-dir dataset-path data-root dataroot root "
                       "coco-path train-dir train-data train-path data-config",
            .remark = ", a folder that coco-pack wrote"});
  cli.option("validation", o.validation.shards, "SHARDS",
             "folder or URL to validate on at epoch ends",
             {.may_change = true,
              .foreign = "val val-dir val-data val-path validation-data valid test-dir"});
  cli.option("output", o.output, "RUN", "folder for checkpoints, metrics and report (required)",
             {.may_change = true, .foreign = kForeignOutputs});
  cli.option("synthetic", o.data.synthetic, "COUNT",
             "speed test on COUNT synthetic images instead of --train; needs no --output",
             {.least = 0, .most = 10'000'000});
  cli.option("synthetic-size", o.data.synthetic_size, "WxH",
             "their size before resizing, a quarter of them upright", {.part_of = "synthetic"});
  cli.option_or_auto(
      "min-side", o.data.min_sides_px, "PX[,PX...]",
      "resize the shorter side to this; of several, each step draws one and validation takes the "
      "largest; auto: the median of the images' shorter sides, 800 at most; classify: side of the "
      "square that the network sees [800; classify 224, cifar-cnn 32]",
      std::vector<std::int64_t>{TrainOptions::Data::kOwnSide},
      {.least = 1,
       .most = 65500,
       .foreign = "imgsz img-size img image-size imgsize input-size img-scale resolution "
                  "image-min-side input-shape imgs shape min-size max-size image-max-side resize "
                  "width height multi-scale multiscale scales",
       .remark = "and --max-side"});
  cli.option("max-side", o.data.max_side_px, "PX",
             "upper limit of the longer side; classify: the shorter side before validation takes "
             "the square from the middle [1333, with --min-side auto as far as the images need it; "
             "classify 256, cifar-cnn 32]");
  cli.choice("shuffle", o.data.shuffle,
             {{"sharded", Shuffle::kSharded}, {"global", Shuffle::kGlobal}},
             "sharded: each rank reads its own part of the shards; global: one order over all");
  cli.choice(
      "sampler", o.data.sampler,
      {{"uniform", Sampler::kUniform}, {"class-balanced", Sampler::kClassBalanced}},
      "uniform: each image once per epoch; class-balanced: images with rare classes more often",
      {.foreign = "class-balanced balanced-sampler"});
  cli.option("repeat-threshold", o.data.repeat_threshold, "T",
             "class-balanced: a class in the share F of the images comes sqrt(T/F) times as often",
             {.above = 0, .most = 1, .needs = "sampler=class-balanced", .part_of = "sampler"});
  cli.on_off("train-on-crowds", o.data.train_on_crowds,
             "boxes of crowds (COCO's iscrowd) are trained on as others; off: left out",
             {.modes = kDetect, .file_only = true});
  cli.option("max-bad-fraction", o.data.max_bad_fraction, "F",
             "largest share of the records that may be damaged; other records replace them",
             {.least = 0, .most = 1, .may_change = true});
  declare_options(cli, o.data.augment);
}

void declare_model(Cli& cli, TrainOptions& o) {
  cli.group("Model (stored in every checkpoint)");
  cli.choice("backbone", o.model.backbone, plain_choices(classifier_names()),
             "feature extractor, torchvision's of that name; cifar-cnn, Keras' small network, only "
             "classifies",
             {.foreign = "backbone-name encoder checkpoint checkpoint-path ckpt ckpt-path "
                         "model-path model model-file snapshot arch network",
              .remark = "for the network; --init for its first weights, --resume for a checkpoint "
                        "to continue from"});
  cli.choice("norm", o.model.norm, kNorms,
             "batch norm of the backbone [batch; detect with --init: frozen, by small batch]",
             {.modes = kDetect | kClassify});
  cli.on_off("sync-bn", o.model.sync_bn,
             "batch norm over the images of all ranks, not of each rank's own",
             {.modes = kDetect | kClassify,
              .foreign = "sync-batchnorm syncbn sync-batch-norm",
              .remark = "on"});
  cli.option("norm-eps", o.model.norm_eps, "EPS", "added to the variance in batch norm",
             {.least = 0});
  cli.choice("head-norm", o.model.head_norm, kHeadNorms, "GroupNorm in the heads (v2) or none (v1)",
             {.modes = kDetect});
  cli.choice(
      "p6", o.model.p6, {{"auto", P6Source::kAuto}, {"c5", P6Source::kC5}, {"p5", P6Source::kP5}},
      "what level P6 is made from; auto: c5 with --head-norm group, else p5", {.modes = kDetect});
  cli.option_or_auto("anchor-sizes", o.model.anchor_sizes, "PX,PX,PX,PX,PX",
                     "base anchor of P3..P7; auto: those that fit the training set's boxes best at "
                     "--min-side and --max-side",
                     {.modes = kDetect});
  cli.option("anchor-offset", o.model.anchor_offset, "STRIDES",
             "where in its cell an anchor is centred: 0 torchvision, 0.5 keras-retinanet",
             {.modes = kDetect, .file_only = true});
  cli.choice("anchors-per-location", o.model.anchors_per_location,
             {{"9", kAnchorsPerCell}, {"1", 1}},
             "9: three shapes in three sizes of each base anchor; 1: the base anchor alone, of "
             "64,128,256,512,1024 px where --anchor-sizes is not given",
             {.modes = kDetect});
  cli.imply([&o](const Setter& set) {
    // Eight strides, as in Zhang et al. 2020, section 4.1.
    if (o.model.anchors_per_location != 1) return;
    set(o.model.anchor_sizes, std::vector<double>{64, 128, 256, 512, 1024});
  });
  cli.on_off("keep-ratio", o.model.keep_ratio,
             "off: whole images are stretched to squares of --min-side, and --max-side is not used",
             {.modes = kDetect});
  cli.option("fpn-channels", o.model.fpn_channels, "N",
             "channels of P3..P7 and of the heads, 64 to 256 in steps of 32", {.modes = kDetect});
  cli.option("head-convs", o.model.head_convs, "1..4",
             "3x3 convolutions of each head before its output",
             {.least = 1, .most = kMostHeadConvs, .modes = kDetect});
  cli.option(
      "trainable-layers", o.model.trainable_layers, "0..5",
      "backbone stages that are trained [5; detect with --init: 3, by small 5]",
      {.least = 0,
       .most = 5,
       .modes = kDetect | kClassify,
       .foreign = "freeze freeze-layers freeze-backbone freeze-at trainable-backbone-layers"});
  cli.option(
      "init", o.model.init, "RUN|CHECKPOINT|NAME",
      cat("start from these weights: of a run folder, its best checkpoint; NAME, of those that "
          "`make weights` fetches: ",
          pretrained_names(),
          "; classes are matched by name, and the model's options that are not given follow the "
          "weights; none: from scratch, even where a recipe requires a pretrained backbone"),
      {.may_change = true,
       .foreign = "weights pretrained pretrained-weights load-from load-weights init-weights "
                  "finetune finetune-from weights-backbone backbone-weights pretrained-backbone "
                  "imagenet-weights weights-path no-weights",
       .remark = "(foreign weights first through retina-convert --import; none: from scratch)"});
}

void declare_loss(Cli& cli, TrainOptions& o) {
  cli.group("Loss");
  cli.choice("assigner", o.loss.assigner, {{"iou", Assigner::kIou}, {"atss", Assigner::kAtss}},
             "which anchors learn a box: iou: by a fixed overlap; atss: by a threshold that fits "
             "each box (Zhang et al. 2020)",
             {.modes = kDetect, .foreign = "foreground-iou background-iou iou-thresholds"});
  cli.choice("class-loss", o.loss.class_loss, kClassLosses,
             "classification loss; quality-focal and varifocal teach scores that say how well the "
             "box fits, too",
             {.modes = kDetect, .foreign = "focal-alpha focal-gamma alpha"});
  cli.choice("box-loss", o.loss.box.kind, kBoxLosses, "regression loss (v1: l1, v2: giou)",
             {.modes = kDetect, .foreign = "smooth-l1-beta box-weight"});
  cli.option(
      "box-loss-weight", o.loss.box_weight, "W",
      "above 0 to 1000: of the box loss beside the class loss; 2 in the recipes atss and gfl",
      {.above = 0, .most = 1000, .modes = kDetect, .part_of = "box-loss"});
  cli.option("box-loss-beta", o.loss.box.smooth_l1_beta, "BETA",
             "where smooth-l1 turns from quadratic to l1",
             {.least = 1e-6,
              .most = 1e6,
              .modes = kDetect,
              .needs = "box-loss=smooth-l1",
              .part_of = "box-loss"});
  cli.option("box-target-std", o.loss.box.target_std, "STD", "box offsets are divided by this",
             {.least = 1e-6, .most = 1e6, .modes = kDetect, .file_only = true});
  cli.option("class-loss-alpha", o.loss.focal_alpha, "ALPHA",
             "class-loss focal: weight of foreground",
             {.least = 0,
              .most = 1,
              .modes = kDetect,
              .needs = "class-loss=focal",
              .part_of = "class-loss"});
  cli.option("class-loss-gamma", o.loss.focal_gamma, "GAMMA",
             "class-loss focal: how strongly easy anchors are discounted",
             {.least = 0,
              .most = 100,
              .modes = kDetect,
              .needs = "class-loss=focal",
              .part_of = "class-loss"});
  cli.option(
      "assigner-foreground", o.loss.match.foreground_iou, "IOU",
      "assigner iou: anchors of at least this overlap learn a box",
      {.least = 0, .most = 1, .modes = kDetect, .needs = "assigner=iou", .part_of = "assigner"});
  cli.option(
      "assigner-background", o.loss.match.background_iou, "IOU",
      "assigner iou: anchors below it learn background",
      {.least = 0, .most = 1, .modes = kDetect, .needs = "assigner=iou", .part_of = "assigner"});
  cli.on_off("low-quality-matches", o.loss.match.low_quality_matches,
             "assigner iou: the best anchor of a box learns it whatever the overlap",
             {.modes = kDetect, .needs = "assigner=iou", .file_only = true});
  cli.option("label-smoothing", o.label_smoothing, "S",
             "classify: share of the target that is spread over all classes",
             {.least = 0, .below = 1, .modes = kClassify | kClassifySmall});
}

void declare_length(Cli& cli, TrainOptions& o) {
  cli.group("Length");
  cli.option("epochs", o.length.epochs, "N",
             cat("epochs: every image once, or --steps-per-epoch steps [",
                 fact_of_each_recipe(&RecipeFacts::epochs), "; or more for ",
                 facts_of_recipe(kAutoRecipe).least_steps, " steps, ", kSmallRecipe, " ",
                 facts_of_recipe(kSmallRecipe).least_steps, ", ", kFinetuneRecipe, " ",
                 facts_of_recipe(kFinetuneRecipe).least_steps, "]"),
             {.least = 1,
              .most = kMostInSpan,
              .may_change = true,
              .foreign = "num-epochs n-epochs nb-epochs max-epochs total-epochs train-epochs"});
  cli.option("steps", o.length.steps, "N", "global steps in all, instead of --epochs",
             {.least = 1,
              .most = kMostInSpan,
              .may_change = true,
              .foreign = "max-steps max-iter max-iters iterations num-steps iters num-iterations "
                         "total-steps num-train-steps train-steps"});
  cli.option("for", o.length.time, "DURATION",
             "how long the run may take, instead of --epochs: 30min, 2h; its steps follow from "
             "measured ones [1h where --size is chosen on a CPU]",
             {.may_change = true, .foreign = "time max-time time-limit"});
  cli.option("steps-per-epoch", o.length.steps_per_epoch, "N",
             "epochs of N steps, whatever the size of the data; 0: an epoch is every image once",
             {.least = 0, .most = kMostInSpan});
  cli.option("early-stop", o.schedule.rule.early_stop_patience, "N",
             "end after N validations without improvement of AP or top-1 accuracy; 0: never",
             {.least = 0, .foreign = "patience early-stopping early-stopping-patience"});
  cli.option("stop-at-ap", o.schedule.rule.stop_at, "AP",
             "end after a validation of at least this AP; 0: never",
             {.least = 0, .most = 1, .modes = kDetect, .may_change = true});
  cli.option("images-per-step", o.length.images_per_step, "G",
             "global batch over all ranks [16, or by --images-per-rank]",
             {.least = 1,
              .most = kMostImages,
              .foreign = "batch-size batch b bs batchsize train-batch-size images-per-batch "
                         "ims-per-batch total-batch-size global-batch-size train-batch batch-sz",
              .remark = "(all ranks together)"});
  cli.option(
      "images-per-rank", o.length.images_per_rank, "N",
      "times the number of ranks: the global batch where --images-per-step is not given",
      {.least = 0,
       .most = kMostImages,
       .is_transient = true,
       .foreign =
           "images-per-gpu imgs-per-gpu samples-per-gpu batch-size-per-gpu per-gpu-batch-size "
           "per-device-train-batch-size per-device-batch-size batch-per-gpu micro-batch-size"});
  cli.option("micro-batch", o.length.micro_batch, "auto|N",
             "images that a rank sends through the network at once, which is what batch norm sees; "
             "auto: its whole share of a step, or as many as fit into memory; 0: its whole share",
             {.may_change = true,
              .foreign = "accumulate accumulation-steps gradient-accumulation-steps grad-accum "
                         "accumulate-grad-batches accum-iter grad-accum-steps",
              .remark = ", how many of a rank's images go through the network at once"});
}

void declare_optimizer_and_schedule(Cli& cli, TrainOptions& o) {
  cli.group("Optimiser");
  cli.choice("optimizer", o.optimizer.rule.kind, kOptimizers, "update rule",
             {.foreign = "opt optim solver optimiser"});
  cli.option(
      "lr", o.optimizer.lr, "LR",
      "base learning rate [sgd 0.01, adam and adamw 0.0001, rmsprop 0.001]",
      {.above = 0,
       .foreign =
           "learning-rate lr0 base-lr init-lr initial-lr blr lr-init solver-base-lr optimizer-lr"});
  cli.choice(
      "lr-scaling", o.optimizer.lr_scaling, kLrScalings,
      cat("linear: times --images-per-step over the recipe's (",
          fact_of_each_recipe(&RecipeFacts::reference_images_per_step),
          "); of sgd without --recipe and --lr: linear"),
      {.part_of = "lr", .foreign = "auto-scale-lr scale-lr linear-scale-lr", .remark = "linear"});
  cli.option("optimizer-momentum", o.optimizer.rule.momentum, "M", "of sgd",
             {.least = 0, .below = 1, .part_of = "optimizer"});
  cli.option("weight-decay", o.optimizer.weight_decay, "D", "[adamw 0.05, others 0.0001]",
             {.least = 0, .foreign = "wd decay l2"});
  cli.option("norm-weight-decay", o.optimizer.rule.norm_weight_decay, "D",
             "weight decay of normalisation layers [as --weight-decay]",
             {.least = 0, .file_only = true});
  cli.option("clip-norm", o.optimizer.clip_norm, "NORM",
             "largest global gradient norm; 0: no clipping",
             {.least = 0,
              .foreign = "clip-grad clip-max-norm grad-clip gradient-clip-val max-grad-norm "
                         "clip-grad-norm gradient-clip optimizer-clipnorm clipnorm"});
  cli.option("ema", o.optimizer.ema, "DECAY",
             "moving average of the weights, e.g. 0.999: what is validated and saved; 0: none",
             {.least = 0, .below = 1, .foreign = "model-ema model-ema-decay ema-decay use-ema"});
  cli.choice(
      "lr-schedule", o.schedule.rule.schedule.kind, kSchedules, "after the warm-up",
      {.foreign =
           "lr-scheduler scheduler sched lr-policy schedule cos-lr cosine lrf final-lr min-lr",
       .remark = "(cosine falls to 0)"});
  cli.option("lr-drop-at", o.schedule.drop_at, "SPANS",
             "step schedule: when the rate drops: epochs, steps, or 2/3 for a share of the run; "
             "without --recipe: 16/26,22/26",
             {.may_change = true,
              .foreign = "lr-steps lr-step-size milestones decay-epochs lr-drop lr-decay-epochs"});
  cli.option("lr-schedule-factor", o.schedule.rule.schedule.drop_factor, "F",
             "step and plateau schedules: by how much", {.least = 0, .part_of = "lr-schedule"});
  cli.option("lr-decay", o.schedule.decay, "D",
             "inverse-time schedule: the rate is divided by 1 + D times the steps done",
             {.above = 0, .file_only = true});
  cli.choice("lr-schedule-metric", o.schedule.rule.plateau_metric, kPlateauMetrics,
             "plateau schedule: the metric that must improve",
             {.needs = "lr-schedule=plateau", .part_of = "lr-schedule"});
  cli.option("lr-schedule-patience", o.schedule.rule.plateau_patience, "N",
             "plateau schedule: epochs without improvement",
             {.least = 1, .needs = "lr-schedule=plateau", .part_of = "lr-schedule"});
  cli.option_or_auto(
      "warmup-steps", o.schedule.warmup_steps, "N",
      "linear warm-up; auto, and without --recipe: a tenth of the run, at most 1000; mlperf: an "
      "epoch",
      {.least = 0,
       .most = kMostInSpan,
       .foreign = "warmup warmup-iters warmup-epochs lr-warmup-epochs warmup-iterations"});
  cli.option("warmup-factor", o.schedule.rule.schedule.warmup_factor, "F",
             "rate of the first step over the base rate", {.least = 0, .file_only = true});
}

void declare_run(Cli& cli, TrainOptions& o) {
  cli.group("Run");
  cli.choice("device", o.compute.device, kDeviceChoices, "auto: a GPU if there is one",
             {.may_change = true, .foreign = "cpu no-cuda", .remark = "cpu"});
  cli.option("expect-ranks", o.distribution.expect_ranks, "N",
             "refuse to start unless there are N ranks; 0: any number",
             {.least = 0, .may_change = true});
  cli.option(
      "stall-timeout", o.distribution.watch.stall_timeout_s, "SECONDS",
      "end the job when a rank is silent this long (stopped, cut off, frozen), or others wait this "
      "long for one that is alive, 10 steps at least; clouds freeze machines for 30 s",
      {.least = 1, .may_change = true});
  cli.choice("precision", o.compute.precision, kTrainingPrecisions,
             "of convolutions; weights stay fp32. fp16 is for GPUs without bf16 and scales the "
             "loss; auto: bf16 where it is faster, fp32 in a named recipe",
             {.foreign = "bf16 autocast fp16 half use-fp16 amp mixed-precision use-amp",
              .remark = "bf16, or fp16 on GPUs before Ampere"});
  cli.on_off("precision-tf32", o.compute.tf32,
             "on: TF32 for fp32 products on GPUs, several times as fast; off: IEEE fp32. "
             "Validation always computes in IEEE fp32",
             {.may_change = true, .part_of = "precision"});
  cli.choice("wire", o.distribution.buckets.wire.type, kWireTypes,
             "gradients between ranks; 16 bit halves the traffic", {.may_change = true});
  cli.on_off("deterministic-reduce", o.distribution.buckets.wire.ordered,
             "on: gradients are summed in rank order, the same bits for buckets of any size",
             {.may_change = true, .foreign = "use-deterministic-algorithms", .remark = "on"});
  cli.on_off("overlap-reduce", o.distribution.buckets.overlap,
             "on: gradients travel while backward computes the others",
             {.may_change = true, .file_only = true});
  cli.option("bucket-mb", o.distribution.bucket_mb, "auto|N",
             "gradients travel in buckets of N MiB; auto: 8, or as the run began",
             {.may_change = true, .file_only = true});
  cli.option("seed", o.seed, "N", "random seed of weights, order and augmentation",
             {.foreign = "deterministic manual-seed random-seed"});
}

// The rest of the group.
void declare_checkpoints_and_validation(Cli& cli, TrainOptions& o) {
  cli.option(
      "scratch", o.scratch, "DIR",
      "local disk: checkpoints are built here before they go to --output, and the shards that a "
      "rank reads are copied here [beside the output; shards that cannot be mapped: $TMPDIR]",
      {.may_change = true});
  cli.choice("stage", o.data.stage.always, {{"auto", false}, {"always", true}},
             "copy training shards to --scratch while they are in use: auto: from network mounts "
             "and mounts without mmap; always: from any disk",
             {.may_change = true});
  cli.bytes("stage-limit", o.data.stage.limit_bytes,
            "largest size of all these copies on a node, never more than 80 % of what is free in "
            "--scratch; 0: none ahead of use [80 %]",
            {.may_change = true});
  cli.option("checkpoint-every", o.checkpoints.every, "SPAN",
             "1epoch, 500steps or 10min, of these also at epoch ends",
             {.may_change = true,
              .foreign = "save-period save-interval save-freq checkpoint-interval save-every "
                         "save-steps snapshot-interval checkpoint-freq"});
  cli.option("check-replicas-every", o.distribution.check_replicas_every, "STEPS",
             "compare the ranks' weights, also before each checkpoint; 0: never",
             {.least = 0, .may_change = true});
  cli.choice("on-nan", o.checkpoints.on_nan,
             {{"stop", OnNan::kStop}, {"rollback", OnNan::kRollback}},
             "a loss or gradient that is not finite (in fp16, with a loss scale of 1): end with 1, "
             "or return to the last checkpoint and skip that step",
             {.may_change = true});
  cli.option("keep", o.checkpoints.keep, "K", "newest checkpoints to keep, besides the best",
             {.least = 1,
              .most = 1'000'000,
              .may_change = true,
              .foreign = "save-total-limit max-keep-ckpts keep-checkpoints checkpoint-hist"});
  cli.option(
      "resume", o.checkpoints.resume, "auto|never|FILE",
      "auto: continue what is in --output; never: refuse if something is; FILE: begin there",
      {.may_change = true,
       .foreign = "resume-from auto-resume resume-from-checkpoint continue continue-train restore "
                  "resume-path last initial-epoch start-epoch",
       .remark =
           "FILE, to begin at a checkpoint; the same command again continues what is in --output"});
  cli.flag("overwrite", o.checkpoints.overwrite, "discard the run in --output and start again",
           {.may_change = true, .foreign = kForeignOverwrites});
  cli.option("validate-every", o.validation.every_epochs, "EPOCHS", "0: only at the end",
             {.least = 0,
              .may_change = true,
              .foreign = "val-interval eval-interval eval-every eval-period val-every eval-freq "
                         "check-val-every-n-epoch validation-interval no-evaluation"});
  cli.option("validation-images", o.validation.images, "N", "validate on the first N; 0: all",
             {.least = 0, .may_change = true});
  cli.option("threads", o.data.decode_threads, "N",
             "decode threads per rank; 0: one, and another each time the network waits for images, "
             "up to the node's cores shared among its ranks",
             {.least = 0,
              .most = 1024,
              .may_change = true,
              .foreign = kForeignThreads,
              .remark = "(decoding, per rank)"});
  cli.option("compute-threads", o.compute.threads, "N",
             "CPU threads for the network per rank; 0: the node's cores shared among its ranks, "
             "with --for as others leave them",
             {.least = 0, .most = 1024, .may_change = true});
}

void declare_monitoring(Cli& cli, TrainOptions& o) {
  cli.group("Monitoring");
  cli.option(
      "tensorboard", o.monitoring.tensorboard, "DIR",
      "write all metrics of steps and validations, and images of validations, for `tensorboard "
      "--logdir DIR`; a folder for each run",
      {.may_change = true, .foreign = "tb tensorboard-dir use-tensorboard tensorboard-log-dir"});
  cli.option("preview", o.monitoring.preview, "N",
             "write the run's first N samples, as the model will see them, to preview.html in "
             "--output, and end",
             {.least = 0,
              .most = kMostPreview,
              .may_change = true,
              .foreign = "show visualize vis save-img show-dir save-images plot plots"});
}

// Answers other tools' options that are not ours by another name.
void declare_answers(Cli& cli) {
  cli.foreign("names class-names classes-file num-classes nc label-map",
              "classes are those of the packed set: coco-pack --classes");
  cli.foreign(
      "tile-size patch-size slice-size slice-height slice-width chip-size crop-size tiles slice "
      "tiling overlap patch-overlap slice-overlap overlap-ratio",
      "images are cut while they are packed: coco-pack --tile");
  cli.foreign(
      "gpus num-gpus n-gpus ngpus ngpu gpu multi-gpu gpu-ids gpu-id devices device nproc-per-node "
      "world-size nnodes nodes num-nodes num-machines local-rank rank dist-url dist-backend "
      "launcher master-addr master-port distributed multiprocessing-distributed ddp accelerator "
      "strategy cuda",
      kOneProcessAGpu);
  cli.foreign("augmentation data-augmentation hflip-prob fliplr hyp hflip aug random-transform aa",
              "--augment SET, or one with details: --augment flip,rotation=0.1");
  cli.foreign(
      "flip flipud vflip vertical-flip degrees rotation shear translate translation scale "
      "scale-jitter crop hsv-h hue hsv-s saturation hsv-v brightness contrast fill",
      "--augment SET,NAME=VALUE with vertical-flip, rotation (radians), shear, translation, scale, "
      "scale-jitter, crop, hue, saturation, brightness, contrast, fill");
  cli.foreign("mosaic close-mosaic mixup cutmix copy-paste use-copypaste",
              "images are not mixed; --augment chooses a set of changes of each one");
  cli.foreign("min-sides", "--min-side PX,PX,...; validation takes the largest");
  cli.foreign("tf32", "--precision fp32,tf32=on|off");
  cli.foreign("tile", "images are cut while they are packed: coco-pack --tile");
  cli.foreign("momentum", "--optimizer sgd,momentum=M");
  cli.foreign("lr-gamma gamma decay-rate reduce-lr-factor lr-factor",
              "--lr-schedule step,factor=F");
  cli.foreign("reduce-lr-patience lr-patience", "--lr-schedule plateau,patience=N");
  cli.foreign("evaluate eval eval-only test-only test validate noval",
              "retina-eval evaluates a run: --model RUN --data SHARDS");
  cli.foreign("format include export-format onnx to-onnx target",
              "retina-convert writes the model for inference, an ONNX file");
  cli.foreign("conf conf-thres score-thr iou nms-thr max-det score-threshold nms-threshold",
              "it is for retina-eval and retina-convert");
}

}  // namespace

void declare_options(Cli& cli, TrainOptions& o) {
  cli.group("Recipe");
  cli.preset("recipe", o.recipe, recipe_presets(o), "settings for every option that is not given");
  cli.preset("size", o.model.size, size_presets(o),
             "detect: a backbone, --fpn-channels, --head-convs, --min-side and --max-side for what "
             "is not given, instead of the recipe's; nano: for edge devices, with one anchor a "
             "location; medium: the defaults of these options; auto: on a CPU the largest that "
             "fits the time, with --init or --backbone, if given, of that one; else none",
             {.modes = kDetect, .may_change = true});
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
  cli.modes({"detect", "classify", "classify by cifar-cnn"});
  declare_answers(cli);
  cli.validate([&o](const Cli& given) {
    if (given.given(o.length.time) &&
        (given.given(o.length.steps) || given.given(o.length.epochs))) {
      throw Error(ErrorKind::kUsage,
                  cat(given.name_of(o.length.time), " is given beside a number of steps or epochs"),
                  "keep one of them");
    }
    o.check_task();
    const bool is_small = o.classifies() && o.model.backbone == kCifarCnn;
    given.check_mode(is_small         ? kClassifySmall
                     : o.classifies() ? kClassify
                                      : kDetect,
                     cat("--task ", word_of(kTaskOptions, o.task),
                         is_small ? cat(" --backbone ", kCifarCnn) : ""));
    o.validate();
  });
}

}  // namespace retina
