#include "train/recipes.h"

namespace retina {
namespace {

Cli::Settings atss_settings(const char* class_loss) {
  return {{"backbone", "resnet50"},
          {"head-norm", "group"},
          {"p6", "p5"},
          {"assigner", "atss"},
          {"class-loss", class_loss},
          {"box-loss", "giou"},
          {"box-loss-weight", "2"},
          {"optimizer", "sgd"},
          {"lr", "0.01"},
          {"momentum", "0.9"},
          {"weight-decay", "1e-4"},
          {"lr-schedule", "step"},
          {"lr-drop-at", "8epochs,11epochs"},
          {"lr-drop-factor", "0.1"},
          {"warmup-steps", "500"},
          {"warmup-factor", "0.001"},
          {"images-per-step", "16"}};
}

}  // namespace

const std::map<std::string, Cli::Settings>& recipes() {
  static const std::map<std::string, Cli::Settings> kRecipes = {
      // train.py --model retinanet_resnet50_fpn --epochs 26 --lr-steps 16 22 --lr 0.01
      // --weights-backbone ResNet50_Weights.IMAGENET1K_V1, 8 GPUs x 2. The norm and the layers that
      // learn follow from --init here as they follow from --weights-backbone there.
      {"torchvision-v1",
       {{"backbone", "resnet50"},
        {"head-norm", "none"},
        {"p6", "p5"},
        {"box-loss", "l1"},
        {"optimizer", "sgd"},
        {"lr", "0.01"},
        {"momentum", "0.9"},
        {"weight-decay", "1e-4"},
        {"lr-schedule", "step"},
        {"lr-drop-at", "16epochs,22epochs"},
        {"lr-drop-factor", "0.1"},
        {"warmup-steps", "1000"},
        {"warmup-factor", "0.001"},
        {"images-per-step", "16"}}},
      // train.py --model retinanet_resnet50_fpn_v2 --opt adamw --lr 1e-4 --weight-decay 0.05
      // --norm-weight-decay 0 --data-augmentation multiscale --sync-bn --weights-backbone
      // ResNet50_Weights.IMAGENET1K_V2, 8 GPUs x 2. What multiscale has drawn, its model rescales
      // to 800 px; here the network sees the side that was drawn.
      {"torchvision-v2",
       {{"backbone", "resnet50"},
        {"norm", "batch"},
        {"sync-bn", "on"},
        {"head-norm", "group"},
        {"p6", "c5"},
        {"box-loss", "giou"},
        {"optimizer", "adamw"},
        {"lr", "1e-4"},
        {"weight-decay", "0.05"},
        {"norm-weight-decay", "0"},
        {"lr-schedule", "step"},
        {"lr-drop-at", "16epochs,22epochs"},
        {"lr-drop-factor", "0.1"},
        {"warmup-steps", "1000"},
        {"warmup-factor", "0.001"},
        {"min-sides", "480,512,544,576,608,640,672,704,736,768,800"},
        {"images-per-step", "16"}}},
      // MLPerf Training v5.1, single_stage_detector: train.py --dataset openimages-mlperf
      // --image-size
      // 800 800 --lr 0.0001 --warmup-epochs 1 --warmup-factor 0.001 --trainable-backbone-layers 3
      // --target-map 0.34: retinanet_resnext50_32x4d_fpn of torchvision's parts, Adam, a constant
      // rate. The norm and the layers that learn follow from --init.
      {kMlperfRecipe,
       {{"backbone", "resnext50_32x4d"},
        {"head-norm", "none"},
        {"p6", "p5"},
        {"box-loss", "l1"},
        {"keep-ratio", "off"},
        {"min-side", "800"},
        {"train-on-crowds", "on"},
        {"optimizer", "adam"},
        {"lr", "1e-4"},
        {"weight-decay", "0"},
        {"lr-schedule", "constant"},
        {"warmup-steps", "auto"},
        {"warmup-factor", "0.001"},
        {"images-per-step", "32"}}},
      // train.py's defaults, ImageNet weights among them: Adam(lr=1e-5, clipnorm=0.001),
      // smooth_l1(sigma=3), focal(.25, 2),
      // ReduceLROnPlateau(monitor="loss", factor=0.1, patience=2), --steps 10000, --batch-size 1.
      {"keras-retinanet",
       {{"backbone", "resnet50"},
        {"head-norm", "none"},
        {"p6", "c5"},
        {"trainable-layers", "5"},
        {"box-loss", "smooth-l1"},
        {"smooth-l1-beta", "0.1111111111111111"},
        {"box-target-std", "0.2"},
        {"focal-alpha", "0.25"},
        {"focal-gamma", "2"},
        {"low-quality-matches", "off"},
        {"anchor-offset", "0.5"},
        {"optimizer", "adam"},
        {"lr", "1e-5"},
        {"weight-decay", "0"},
        {"clip-norm", "0.001"},
        {"lr-schedule", "plateau"},
        {"lr-drop-factor", "0.1"},
        {"plateau-metric", "loss"},
        {"plateau-patience", "2"},
        {"warmup-steps", "0"},
        {"images-per-step", "1"},
        {"steps-per-epoch", "10000"}}},
      // Zhang et al. 2020, sections 4.1 and 4.3, with RetinaNet's 9 anchors a cell, without the
      // branch for centreness. The authors' atss_R_50_FPN_1x.yaml: 90,000 steps, drops at 60,000
      // and 80,000, which are epochs 8 and 11 of 12, GroupNorm heads; warm-up as in MMDetection's
      // atss_r50_fpn_1x_coco.py.
      {"atss", atss_settings("focal")},
      // Li et al. 2020, section 4: trains as the above. Of its losses the quality focal loss and
      // GIoU, weighed as above; box offsets are numbers here, not distributions.
      {"gfl", atss_settings("quality-focal")},
      // train.py --model resnet50, 8 GPUs x 32: 90 epochs, --lr 0.1 --lr-step-size 30, crops of 224
      // px out of 256.
      {"imagenet-resnet50",
       {{"task", "classify"},
        {"backbone", "resnet50"},
        {"min-side", "224"},
        {"max-side", "256"},
        {"augment", "crop"},
        {"optimizer", "sgd"},
        {"lr", "0.1"},
        {"lr-scaling", "linear"},
        {"momentum", "0.9"},
        {"weight-decay", "1e-4"},
        {"lr-schedule", "step"},
        {"lr-drop-at", "30epochs,60epochs,80epochs"},
        {"lr-drop-factor", "0.1"},
        {"warmup-steps", "0"},
        {"images-per-step", "256"}}},
      // RMSprop(lr=0.0001, decay=1e-6), batch_size 32, ImageDataGenerator(width_shift_range=0.1,
      // height_shift_range=0.1, horizontal_flip=True); Horovod's rate is times the ranks.
      {"cifar10-keras",
       {{"task", "classify"},
        {"backbone", "cifar-cnn"},
        {"min-side", "32"},
        {"max-side", "32"},
        {"augment", "flip,translation=0.1,fill=nearest"},
        {"optimizer", "rmsprop"},
        {"lr", "1e-4"},
        {"lr-scaling", "linear"},
        {"weight-decay", "0"},
        {"lr-schedule", "inverse-time"},
        {"lr-decay", "1e-6"},
        {"warmup-steps", "0"},
        {"images-per-rank", "32"}}},
      // From scratch, batch norm and heads begin at random: AdamW gets them going in the few
      // thousand steps of a small set, as in jobs/demo.json; the average of the weights evens out
      // its noise. The losses and the order of images found most on three small sets:
      // docs/measurements.md.
      {kSmallRecipe,
       {{"optimizer", "adamw"},
        {"lr", "4e-4"},
        {"clip-norm", "10"},
        {"ema", "0.998"},
        {"class-loss", "quality-focal"},
        {"box-loss-weight", "2"},
        {"shuffle", "global"}}},
      // A trained detector is near its goal: a quarter of the rate that it was trained with.
      {kFinetuneRecipe, {{"lr", "0.0025"}, {"clip-norm", "10"}}},
  };
  return kRecipes;
}

const std::map<std::string, Cli::Settings>& detector_sizes() {
  struct Size {
    const char *backbone, *fpn_channels, *head_convs, *min_side, *max_side;
  };
  const auto settings = [](const Size& size, Cli::Settings more = {}) {
    more.insert(more.begin(), {{"backbone", size.backbone},
                               {"fpn-channels", size.fpn_channels},
                               {"head-convs", size.head_convs},
                               {"min-side", size.min_side},
                               {"max-side", size.max_side}});
    return more;
  };
  // Nine anchors' class scores would be half of nano's multiplications.
  const Cli::Settings one_anchor = {
      {"anchors-per-location", "1"}, {"assigner", "atss"}, {"box-loss", "giou"}};
  // Sides in the proportion of 800 to 1333.
  static const std::map<std::string, Cli::Settings> kSizes = {
      {"nano", settings({"mobilenet_v3_large", "64", "2", "320", "533"}, one_anchor)},
      {"small", settings({"regnet_x_1_6gf", "128", "3", "512", "853"})},
      {"medium", settings({"resnet50", "256", "4", "800", "1333"})},
      {"large", settings({"resnext101_64x4d", "256", "4", "800", "1333"})},
  };
  return kSizes;
}

RecipeFacts facts_of_recipe(const std::string& name) {
  if (name == "torchvision-v1") return {.backbone = "imagenet-v1"};
  if (name == "torchvision-v2") return {.backbone = "imagenet-v2"};
  if (name == kMlperfRecipe) return {.reference_images_per_step = 32, .warmup_epochs = 1};
  if (name == "atss" || name == "gfl") return {.epochs = 12, .backbone = "imagenet-v1"};
  if (name == "imagenet-resnet50") {
    return {.task = Task::kClassification, .reference_images_per_step = 256, .epochs = 90};
  }
  if (name == "cifar10-keras") {
    return {.task = Task::kClassification, .reference_images_per_step = 32, .epochs = 25};
  }
  if (name == "keras-retinanet") {
    return {.reference_images_per_step = 1, .epochs = 50, .backbone = "imagenet-v1"};
  }
  if (name == kAutoRecipe) return {.fits_data = true, .least_steps = 1500};
  if (name == kSmallRecipe) return {.fits_data = true, .least_steps = 3000};
  if (name == kFinetuneRecipe) return {.epochs = 12, .fits_data = true, .least_steps = 1000};
  return {};
}

}  // namespace retina
