// All of retina-train's options, filled once in main from the command line.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "shared/anchor/anchor_fit.h"
#include "shared/base/url.h"
#include "shared/image/resize.h"
#include "shared/model/config.h"
#include "shared/model/device_choice.h"
#include "shared/model/precision.h"
#include "shared/shard/stager.h"
#include "shared/watch/watch_options.h"
#include "train/augment/augment_choice.h"
#include "train/plan/sampler.h"
#include "train/reduce/bucket_plan.h"
#include "train/schedule/adaptive_schedule.h"
#include "train/start/recipes.h"
#include "train/step/detection_loss.h"
#include "train/step/optimizer.h"

namespace retina {

class Cli;
struct SavingOptions;

enum class P6Source { kAuto, kC5, kP5 };  // kAuto: C5 with GroupNorm heads (v2), P5 without (v1)
enum class LrScaling { kNone, kLinear };  // kLinear: times images_per_step / the recipe's
enum class OnNan { kStop, kRollback };

// Words of the choices on the command line.
inline const Choices<BoxLossKind> kBoxLosses = {{"l1", BoxLossKind::kL1},
                                                {"smooth-l1", BoxLossKind::kSmoothL1},
                                                {"giou", BoxLossKind::kGiou},
                                                {"ciou", BoxLossKind::kCiou}};
inline const Choices<ClassLossKind> kClassLosses = {{"focal", ClassLossKind::kFocal},
                                                    {"quality-focal", ClassLossKind::kQualityFocal},
                                                    {"varifocal", ClassLossKind::kVarifocal}};
inline const Choices<Precision> kTrainingPrecisions = {{"auto", Precision::kAuto},
                                                       {"fp32", Precision::kFp32},
                                                       {"bf16", Precision::kBf16},
                                                       {"fp16", Precision::kFp16}};
inline const Choices<LrScaling> kLrScalings = {{"none", LrScaling::kNone},
                                               {"linear", LrScaling::kLinear}};

inline constexpr int kMostImages = 65536;  // limit of a step's images

struct TrainOptions {
  std::string recipe = kAutoRecipe;  // sets the options that are left unset, see recipes.h
  Task task = Task::kDetection;
  std::string output;   // RUN folder; may be empty with `data.synthetic`
  std::string scratch;  // local disk for checkpoints and shards; empty: `output`, $TMPDIR
  std::uint64_t seed = 1;

  struct Data {
    std::vector<std::string> train;  // SHARDS folders and URLs, whose union is trained on
    // Returns the folder beside which weights are looked for; "" for a URL.
    std::string first_train() const {
      return train.empty() || is_url(train.front()) ? "" : train.front();
    }
    StageOptions stage;          // rules for copying the sets' shards to `scratch`
    std::int64_t synthetic = 0;  // train on this many synthetic images instead: a speed test
    std::string synthetic_size = "640x480";  // WxH, px, of these: COCO's usual
    bool train_on_crowds = false;            // use boxes with COCO's iscrowd
    // Limits of the shorter side. Unset: 800, and 1333 for the longer one; for a classifier 224 and
    // 256, cifar-cnn 32. Of several, each step draws one; validation takes the largest.
    std::optional<std::vector<std::int64_t>> min_sides_px;
    std::optional<int> max_side_px;
    // Single entry of min_sides_px for --min-side auto: the images' own size, until it is known.
    static constexpr std::int64_t kOwnSide = std::numeric_limits<std::int64_t>::min();
    AugmentChoice augment;
    Shuffle shuffle = Shuffle::kSharded;
    Sampler sampler = Sampler::kUniform;
    double repeat_threshold = 0.001;  // share of images below which a class is rare
    double max_bad_fraction = 0.001;  // largest share of damaged records
    int decode_threads = 0;           // per rank; 0: as many as needed
  } data;

  struct Model {
    std::string size = kAutoSize;  // sets options that are left unset, too, see recipes.h
    std::string backbone = "resnet50";
    std::optional<Norm> norm;  // unset: batch; frozen for a detector with --init
    bool sync_bn = false;      // batch norm over the images of all ranks
    double norm_eps = 1e-5;
    HeadNorm head_norm = HeadNorm::kGroup;
    P6Source p6 = P6Source::kAuto;
    std::optional<std::vector<double>> anchor_sizes =
        default_anchor_sizes();  // px; unset: fit to the boxes
    double anchor_offset = 0;    // place of the centre in its cell, in strides
    int anchors_per_location = kAnchorsPerCell;
    bool keep_ratio = true;               // off: images are stretched to squares of min_side_px
    int fpn_channels = 256;               // channels of P3..P7 and of the heads
    int head_convs = 4;                   // 3x3 convolutions of a head before its output
    std::optional<int> trainable_layers;  // stages of the backbone; unset: 5, or 3 with freezes()
    // Source of weights: run folder, checkpoint or name (pretrained.h); "none" or empty: from
    // scratch.
    std::string init;
  } model;

  LossOptions loss;            // a detector's
  double label_smoothing = 0;  // in a classifier's cross-entropy

  struct Length {
    std::optional<std::int64_t> epochs;  // unset and no steps: the recipe's
    std::optional<std::int64_t> steps;   // global steps in all
    std::string time;                    // duration that decides the steps; empty: none
    std::int64_t steps_per_epoch = 0;    // 0: every image once
    // The global batch over all ranks; unset: images_per_rank times the ranks, or else 16.
    std::optional<int> images_per_step;
    int images_per_rank = 0;           // 0: not given
    std::string micro_batch = "auto";  // text for micro_batch_images()
  } length;

  struct Optimizer {
    OptimizerOptions rule;               // without the members below
    std::optional<double> weight_decay;  // unset: adamw .05, else 1e-4
    std::optional<double> lr;            // unset: sgd .01, adam and adamw 1e-4, rmsprop 1e-3
    LrScaling lr_scaling = LrScaling::kNone;
    double clip_norm = 0;  // limit of the global gradient norm; 0: none
    double ema = 0;        // decay of the weights' moving average; 0: none
  } optimizer;

  struct Schedule {
    AdaptiveScheduleOptions rule;                     // without the members below
    std::optional<std::int64_t> warmup_steps = 1000;  // unset: default_warmup_steps()
    std::vector<std::string> drop_at = {"16epochs", "22epochs"};
    std::optional<double> decay;  // D of inverse-time, rate / (1 + D step), which needs it
  } schedule;

  struct Compute {
    DeviceChoice device = DeviceChoice::kAuto;
    Precision precision = Precision::kAuto;
    bool tf32 = true;  // TF32 for fp32 products on GPUs, as LibTorch's for convolutions
    int threads = 0;   // CPU threads; 0: the node's cores shared among its ranks
  } compute;

  struct Distribution {
    int expect_ranks = 0;  // number of ranks to insist on; 0: any
    WatchOptions watch{};
    BucketOptions buckets;                    // for gradients; without the size, `bucket_mb`
    std::string bucket_mb = "auto";           // MiB; auto: 8, or as the run began
    std::int64_t check_replicas_every = 500;  // period in steps; 0: never
  } distribution;

  struct Checkpoints {
    std::string every = "1epoch";  // a span
    int keep = 3;                  // newest checkpoints kept besides the best
    OnNan on_nan = OnNan::kStop;
    std::string resume = "auto";
    bool overwrite = false;
  } checkpoints;

  struct Validations {
    std::string shards;       // SHARDS folder to validate on, or empty
    int every_epochs = 1;     // period; 0: only at the end
    std::int64_t images = 0;  // limit of images; 0: all
  } validation;

  struct Monitoring {
    std::string tensorboard;   // folder for TensorBoard's events, or empty
    std::int64_t preview = 0;  // samples to write to a page instead of training
  } monitoring;

  // Throws Error{kUsage} or Error{kConfig} if the recipe or a value is for another task.
  void check_task() const;
  // Throws Error{kUsage} or Error{kConfig} for options that are wrong or contradict each other;
  // touches no file.
  void validate() const;

  bool from_scratch() const;
  ImageSize synthetic_image_size() const;
  bool writes() const { return !output.empty(); }
  bool classifies() const { return task == Task::kClassification; }
  std::string judge() const;        // option that needs validations; "": none
  bool watches_validation() const;  // true if AP or top-1 steers the learning rate
  // Returns true for a detector with --init: norms and early layers stay frozen, as torchvision's,
  // where no option or recipe says otherwise. A classifier learns all anew.
  bool freezes() const { return !from_scratch() && !classifies(); }
  Norm norm_kind() const { return model.norm.value_or(freezes() ? Norm::kFrozen : Norm::kBatch); }
  int min_side() const {
    if (wants_own_sides()) return std::min(default_sides(task, model.backbone).min_px, max_side());
    if (!data.min_sides_px) return default_sides(task, model.backbone).min_px;
    return static_cast<int>(
        *std::max_element(data.min_sides_px->begin(), data.min_sides_px->end()));
  }
  bool wants_own_sides() const {
    return data.min_sides_px && data.min_sides_px->front() == Data::kOwnSide;
  }
  // Returns the min sides that steps draw from; empty: all have min_side().
  std::vector<std::int64_t> drawn_sides() const {
    const auto& sides = data.min_sides_px;
    return sides && sides->size() > 1 ? *sides : std::vector<std::int64_t>{};
  }
  int least_side() const { return classifies() ? 8 : 32; }
  int max_side() const {
    if (!model.keep_ratio) return min_side();
    return data.max_side_px.value_or(default_sides(task, model.backbone).max_px);
  }
  Augment augment_set() const {
    return data.augment.set(classifies() ? Augment::kCrop : Augment::kFlip);
  }
  bool may_resume() const { return checkpoints.resume != "never"; }
  bool resumes_file() const { return may_resume() && checkpoints.resume != "auto"; }
  bool rolls_back() const { return checkpoints.on_nan == OnNan::kRollback; }
  // Returns the global batch; with --images-per-rank it is known only after for_ranks().
  int step_images() const { return length.images_per_step.value_or(16); }
  // Returns these options with the global batch set, for this number of ranks.
  TrainOptions for_ranks(int rank_count) const;
  // Returns how many images of a rank go through the network at once; 0: all that it has in a step.
  // Unset: as many as fit into memory. Throws Error{kUsage}.
  std::optional<int> micro_batch_images() const;
  int layers_to_train() const { return model.trainable_layers.value_or(freezes() ? 3 : 5); }

  ModelConfig model_config(int class_count) const;
  BucketOptions bucket_options() const;
  SavingOptions saving_options() const;
  OptimizerOptions optimizer_options() const;
  EpochPlanOptions plan_options() const;
  // Returns the learning rate as given, or the optimizer's default; the second after --lr-scaling.
  double base_lr() const;
  double effective_lr() const;
  std::int64_t total_steps(std::int64_t epoch_steps) const;
  AdaptiveScheduleOptions adaptive_schedule(std::int64_t epoch_steps) const;
  // Returns the schedule of a run of length `run`, whatever --epochs and --steps say.
  ScheduleOptions schedule_of(const RunLength& run) const;
  const std::vector<double>& anchor_sizes() const;
};

// Declares every option with its group, help and default.
void declare_options(Cli& cli, TrainOptions& options);

}  // namespace retina
