#include "train/start/recipes.h"

#include <algorithm>

#include "shared/base/cat.h"
#include "train/start/options.h"

namespace retina {
namespace {

// SGD or Adam by steps at two thirds, as torchvision's and MMDetection's recipes have it.
void set_steps(TrainOptions& o, const Setter& set, std::vector<std::string> drop_at) {
  ScheduleOptions& schedule = o.schedule.rule.schedule;
  set(schedule.kind, ScheduleKind::kStep);
  set(o.schedule.drop_at, std::move(drop_at));
  set(schedule.drop_factor, 0.1);
}

void set_sgd(TrainOptions& o, const Setter& set, double lr) {
  set(o.optimizer.rule.kind, OptimizerKind::kSgd);
  set(o.optimizer.lr, lr);
  set(o.optimizer.rule.momentum, 0.9);
  set(o.optimizer.weight_decay, 1e-4);
}

void set_warmup(TrainOptions& o, const Setter& set, std::optional<std::int64_t> steps) {
  set(o.schedule.warmup_steps, steps);
  set(o.schedule.rule.schedule.warmup_factor, 0.001);
}

void set_detector(TrainOptions& o, const Setter& set, HeadNorm norm, P6Source p6,
                  BoxLossKind loss) {
  set(o.model.head_norm, norm);
  set(o.model.p6, p6);
  set(o.loss.box.kind, loss);
}

// train.py --model retinanet_resnet50_fpn --epochs 26 --lr-steps 16 22 --lr 0.01
// --weights-backbone ResNet50_Weights.IMAGENET1K_V1, 8 GPUs x 2. The norm and the layers that
// learn follow from --init here as they follow from --weights-backbone there.
void torchvision_v1(TrainOptions& o, const Setter& set) {
  set(o.model.backbone, "resnet50");
  set_detector(o, set, HeadNorm::kNone, P6Source::kP5, BoxLossKind::kL1);
  set_sgd(o, set, 0.01);
  set_steps(o, set, {"16epochs", "22epochs"});
  set_warmup(o, set, 1000);
  set(o.length.images_per_step, 16);
}

// train.py --model retinanet_resnet50_fpn_v2 --opt adamw --lr 1e-4 --weight-decay 0.05
// --norm-weight-decay 0 --data-augmentation multiscale --sync-bn --weights-backbone
// ResNet50_Weights.IMAGENET1K_V2, 8 GPUs x 2. What multiscale has drawn, its model rescales
// to 800 px; here the network sees the side that was drawn.
void torchvision_v2(TrainOptions& o, const Setter& set) {
  set(o.model.backbone, "resnet50");
  set(o.model.norm, Norm::kBatch);
  set(o.model.sync_bn, true);
  set_detector(o, set, HeadNorm::kGroup, P6Source::kC5, BoxLossKind::kGiou);
  set(o.optimizer.rule.kind, OptimizerKind::kAdamW);
  set(o.optimizer.lr, 1e-4);
  set(o.optimizer.weight_decay, 0.05);
  set(o.optimizer.rule.norm_weight_decay, 0.0);
  set_steps(o, set, {"16epochs", "22epochs"});
  set_warmup(o, set, 1000);
  set(o.data.min_sides_px,
      std::vector<std::int64_t>{480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800});
  set(o.length.images_per_step, 16);
}

// MLPerf Training v5.1, single_stage_detector: train.py --dataset openimages-mlperf --image-size
// 800 800 --lr 0.0001 --warmup-epochs 1 --warmup-factor 0.001 --trainable-backbone-layers 3
// --target-map 0.34: retinanet_resnext50_32x4d_fpn of torchvision's parts, Adam, a constant
// rate. The norm and the layers that learn follow from --init.
void mlperf(TrainOptions& o, const Setter& set) {
  set(o.model.backbone, "resnext50_32x4d");
  set_detector(o, set, HeadNorm::kNone, P6Source::kP5, BoxLossKind::kL1);
  set(o.model.keep_ratio, false);
  set(o.data.min_sides_px, std::vector<std::int64_t>{800});
  set(o.data.train_on_crowds, true);
  set(o.optimizer.rule.kind, OptimizerKind::kAdam);
  set(o.optimizer.lr, 1e-4);
  set(o.optimizer.weight_decay, 0.0);
  set(o.schedule.rule.schedule.kind, ScheduleKind::kConstant);
  set_warmup(o, set, std::nullopt);
  set(o.length.images_per_step, 32);
}

// train.py's defaults, ImageNet weights among them: Adam(lr=1e-5, clipnorm=0.001),
// smooth_l1(sigma=3), focal(.25, 2),
// ReduceLROnPlateau(monitor="loss", factor=0.1, patience=2), --steps 10000, --batch-size 1.
void keras_retinanet(TrainOptions& o, const Setter& set) {
  set(o.model.backbone, "resnet50");
  set_detector(o, set, HeadNorm::kNone, P6Source::kC5, BoxLossKind::kSmoothL1);
  set(o.model.trainable_layers, 5);
  set(o.model.anchor_offset, 0.5);
  set(o.loss.box.smooth_l1_beta, 0.1111111111111111);
  set(o.loss.box.target_std, 0.2);
  set(o.loss.focal_alpha, 0.25);
  set(o.loss.focal_gamma, 2.0);
  set(o.loss.match.low_quality_matches, false);
  set(o.optimizer.rule.kind, OptimizerKind::kAdam);
  set(o.optimizer.lr, 1e-5);
  set(o.optimizer.weight_decay, 0.0);
  set(o.optimizer.clip_norm, 0.001);
  set(o.schedule.rule.schedule.kind, ScheduleKind::kPlateau);
  set(o.schedule.rule.schedule.drop_factor, 0.1);
  set(o.schedule.rule.plateau_metric, PlateauMetric::kLoss);
  set(o.schedule.rule.plateau_patience, 2);
  set(o.schedule.warmup_steps, 0);
  set(o.length.images_per_step, 1);
  set(o.length.steps_per_epoch, 10'000);
}

// Zhang et al. 2020, sections 4.1 and 4.3, with RetinaNet's 9 anchors a cell, without the branch
// for centreness. The authors' atss_R_50_FPN_1x.yaml: 90,000 steps, drops at 60,000 and 80,000,
// which are epochs 8 and 11 of 12, GroupNorm heads; warm-up as in MMDetection's
// atss_r50_fpn_1x_coco.py.
void atss(TrainOptions& o, const Setter& set) {
  set(o.model.backbone, "resnet50");
  set_detector(o, set, HeadNorm::kGroup, P6Source::kP5, BoxLossKind::kGiou);
  set(o.loss.assigner, Assigner::kAtss);
  set(o.loss.class_loss, ClassLossKind::kFocal);
  set(o.loss.box_weight, 2.0);
  set_sgd(o, set, 0.01);
  set_steps(o, set, {"8epochs", "11epochs"});
  set_warmup(o, set, 500);
  set(o.length.images_per_step, 16);
}

// Li et al. 2020, section 4: trains as the above. Of its losses the quality focal loss and GIoU,
// weighed as above; box offsets are numbers here, not distributions.
void gfl(TrainOptions& o, const Setter& set) {
  atss(o, set);
  set(o.loss.class_loss, ClassLossKind::kQualityFocal);
}

// train.py --model resnet50, 8 GPUs x 32: 90 epochs, --lr 0.1 --lr-step-size 30, crops of 224
// px out of 256.
void imagenet_resnet50(TrainOptions& o, const Setter& set) {
  set(o.task, Task::kClassification);
  set(o.model.backbone, "resnet50");
  set(o.data.min_sides_px, std::vector<std::int64_t>{224});
  set(o.data.max_side_px, 256);
  set(o.data.augment.items, std::vector<std::string>{"crop"});
  set_sgd(o, set, 0.1);
  set(o.optimizer.lr_scaling, LrScaling::kLinear);
  set_steps(o, set, {"30epochs", "60epochs", "80epochs"});
  set(o.schedule.warmup_steps, 0);
  set(o.length.images_per_step, 256);
}

// RMSprop(lr=0.0001, decay=1e-6), batch_size 32, ImageDataGenerator(width_shift_range=0.1,
// height_shift_range=0.1, horizontal_flip=True); Horovod's rate is times the ranks.
void cifar10_keras(TrainOptions& o, const Setter& set) {
  set(o.task, Task::kClassification);
  set(o.model.backbone, kCifarCnn);
  set(o.data.min_sides_px, std::vector<std::int64_t>{32});
  set(o.data.max_side_px, 32);
  set(o.data.augment.items, std::vector<std::string>{"flip", "translation=0.1", "fill=nearest"});
  set(o.optimizer.rule.kind, OptimizerKind::kRmsprop);
  set(o.optimizer.lr, 1e-4);
  set(o.optimizer.lr_scaling, LrScaling::kLinear);
  set(o.optimizer.weight_decay, 0.0);
  set(o.schedule.rule.schedule.kind, ScheduleKind::kInverseTime);
  set(o.schedule.decay, 1e-6);
  set(o.schedule.warmup_steps, 0);
  set(o.length.images_per_rank, 32);
}

// Heads, and from scratch all else, begin at random: AdamW gets them going in the few thousand
// steps of a small set, as in jobs/demo.json; the average of the weights evens out its noise. The
// losses and the order of images found most on three small sets, and with weights for the backbone
// all layers found more than a frozen norm and three stages: docs/measurements.md.
void small_set(TrainOptions& o, const Setter& set) {
  set(o.model.norm, Norm::kBatch);
  set(o.model.trainable_layers, 5);
  set(o.optimizer.rule.kind, OptimizerKind::kAdamW);
  set(o.optimizer.lr, 4e-4);
  set(o.optimizer.clip_norm, 10.0);
  set(o.optimizer.ema, 0.998);
  set(o.loss.class_loss, ClassLossKind::kQualityFocal);
  set(o.loss.box_weight, 2.0);
  set(o.data.shuffle, Shuffle::kGlobal);
}

// A trained detector is near its goal: a quarter of the rate that it was trained with.
void fine_tuning(TrainOptions& o, const Setter& set) {
  set(o.optimizer.lr, 0.0025);
  set(o.optimizer.clip_norm, 10.0);
}

struct Size {
  const char *name, *backbone;
  int fpn_channels, head_convs, min_side_px, max_side_px;
  bool has_one_anchor = false;  // nine anchors' class scores would be half of nano's products
};

// Sides in the proportion of 800 to 1333.
constexpr Size kSizes[] = {{"nano", "mobilenet_v3_large", 64, 2, 320, 533, true},
                           {"tiny", "resnet18", 64, 2, 320, 533},
                           {"small", "regnet_x_1_6gf", 128, 3, 512, 853},
                           {"medium", "resnet50", 256, 4, 800, 1333},
                           {"large", "resnext101_64x4d", 256, 4, 800, 1333}};

void set_size(const Size& size, TrainOptions& o, const Setter& set) {
  set(o.model.backbone, size.backbone);
  set(o.model.fpn_channels, size.fpn_channels);
  set(o.model.head_convs, size.head_convs);
  set(o.data.min_sides_px, std::vector<std::int64_t>{size.min_side_px});
  set(o.data.max_side_px, size.max_side_px);
  if (!size.has_one_anchor) return;
  set(o.model.anchors_per_location, 1);
  set(o.loss.assigner, Assigner::kAtss);
  set(o.loss.box.kind, BoxLossKind::kGiou);
}

}  // namespace

const std::vector<Recipe>& recipes() {
  constexpr Task kClassifier = Task::kClassification;
  static const std::vector<Recipe> kRecipes = {
      {"atss", {.epochs = 12, .weights = "imagenet-v1"}, atss},
      {"cifar10-keras",
       {.task = kClassifier, .reference_images_per_step = 32, .epochs = 25},
       cifar10_keras},
      {kFinetuneRecipe, {.epochs = 12, .fits_data = true, .least_steps = 1000}, fine_tuning},
      {"gfl", {.epochs = 12, .weights = "imagenet-v1"}, gfl},
      {"imagenet-resnet50",
       {.task = kClassifier, .reference_images_per_step = 256, .epochs = 90},
       imagenet_resnet50},
      {"keras-retinanet",
       {.reference_images_per_step = 1, .epochs = 50, .weights = "imagenet-v1"},
       keras_retinanet},
      {"mlperf", {.reference_images_per_step = 32, .warmup_epochs = 1}, mlperf},
      {kSmallRecipe, {.fits_data = true, .least_steps = 3000}, small_set},
      {"torchvision-v1", {.weights = "imagenet-v1"}, torchvision_v1},
      {"torchvision-v2", {.weights = "imagenet-v2"}, torchvision_v2}};
  return kRecipes;
}

const Recipe* find_recipe(const std::string& name) {
  const auto found = std::find_if(recipes().begin(), recipes().end(),
                                  [&](const Recipe& one) { return one.name == name; });
  return found == recipes().end() ? nullptr : &*found;
}

RecipeFacts facts_of_recipe(const std::string& name) {
  if (name == kAutoRecipe) return {.fits_data = true, .least_steps = 1500};
  const Recipe* const recipe = find_recipe(name);
  return recipe == nullptr ? RecipeFacts{} : recipe->facts;
}

Cli::Presets recipe_presets(TrainOptions& options) {
  Cli::Presets presets;
  for (const Recipe& recipe : recipes()) {
    presets.emplace_back(recipe.name, [&](const Setter& set) { recipe.apply(options, set); });
  }
  return presets;
}

Cli::Presets size_presets(TrainOptions& options) {
  Cli::Presets presets;
  for (const Size& size : kSizes) {
    presets.emplace_back(size.name, [&](const Setter& set) { set_size(size, options, set); });
  }
  return presets;
}

std::string fact_of_each_recipe(int RecipeFacts::*fact) {
  std::string text = cat(RecipeFacts{}.*fact);
  for (const Recipe& recipe : recipes()) {
    if (recipe.facts.*fact != RecipeFacts{}.*fact)
      text += cat(", ", recipe.name, " ", recipe.facts.*fact);
  }
  return text;
}

}  // namespace retina
