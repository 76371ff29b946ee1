#include "train/start/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/checkpoint/pretrained.h"
#include "shared/cli/cli.h"
#include "shared/model/network_shape.h"
#include "tests/support/test_folder.h"
#include "train/run/run_config.h"
#include "train/run/saving.h"
#include "train/start/recipes.h"

namespace retina {
namespace {

TrainOptions parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "retina-train");
  if (std::find(arguments.begin(), arguments.end(), std::string("--synthetic")) ==
      arguments.end()) {
    arguments.insert(arguments.end(), {"--train", "shards", "--output", "run"});
  }
  TrainOptions options;
  Cli cli("retina-train", "", "");
  declare_options(cli, options);
  EXPECT_EQ(cli.parse(static_cast<int>(arguments.size()), arguments.data()), CliOutcome::kRun);
  return options;
}

bool may_change(const std::string& name) {
  TrainOptions options;
  Cli cli("retina-train", "", "");
  declare_options(cli, options);
  const std::vector<EffectiveOption> all = cli.effective();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const EffectiveOption& one) { return one.name == name; });
  EXPECT_NE(found, all.end()) << name;
  return found != all.end() && found->may_change;
}

TrainOptions parse_with(const std::string& json, std::vector<const char*> arguments) {
  const TestFolder folder;
  const std::string path = folder / "config.json";
  write_file_atomically(path, json);
  arguments.insert(arguments.end(), {"--config", path.c_str()});
  return parse(std::move(arguments));
}

// What the parser or the check refuses; fails the test when they take it.
Error refusal(std::vector<const char*> arguments) {
  try {
    parse(std::move(arguments));
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "not refused";
  return {ErrorKind::kInternal, ""};
}

TEST(Recipes, FillWhatIsNotGiven) {
  const TrainOptions options =
      parse({"--recipe", "torchvision-v2", "--lr", "0.5", "--init", "backbone.pt"});
  EXPECT_EQ(options.optimizer.rule.kind, OptimizerKind::kAdamW);
  EXPECT_EQ(options.loss.box.kind, BoxLossKind::kGiou);
  EXPECT_EQ(options.norm_kind(), Norm::kBatch);
  EXPECT_EQ(options.optimizer_options().norm_weight_decay, 0.0);
  EXPECT_EQ(options.plan_options().min_sides_px.size(), 11U);
  EXPECT_EQ(options.base_lr(), 0.5) << "the command line wins";
}

TEST(Options, AugmentNamesASetAndDetailsChangeIt) {
  EXPECT_EQ(parse({}).plan_options().augment.flip, 0.5);
  const auto strong = parse({"--augment", "strong,flip=0.2,rotation=0.3"}).plan_options().augment;
  EXPECT_EQ(strong.scale_jitter.high, 2);
  EXPECT_EQ(strong.flip, 0.2);
  EXPECT_EQ(strong.rotation_rad, 0.3);
  EXPECT_FALSE(may_change("augment")) << "a run continues with the changes that it began with";
  EXPECT_EQ(refusal({"--augment", "rotation=4"}).kind(), ErrorKind::kUsage);
  EXPECT_THAT(refusal({"--synthetic", "8", "--preview", "4"}).what(),
              testing::HasSubstr("synthetic images"));
}

TEST(Options, TrainNamesOneSetOrMore) {
  using testing::ElementsAre;
  EXPECT_THAT(parse({}).data.train, ElementsAre("shards"));
  EXPECT_THAT(parse({"--train", "a", "b", "--lr", "1", "--train", "c"}).data.train,
              ElementsAre("a", "b", "c", "shards"));
  const TestFolder folder;
  const std::string path = folder / "config.json";
  write_file_atomically(path, R"({"train": ["a", "b"], "output": "run"})");
  TrainOptions options;
  Cli cli("retina-train", "", "");
  declare_options(cli, options);
  const std::array<const char*, 3> words = {"retina-train", "--config", path.c_str()};
  cli.parse(static_cast<int>(words.size()), words.data());
  EXPECT_THAT(options.data.train, ElementsAre("a", "b"));
  EXPECT_TRUE(may_change("train")) << "sets are known by their contents";
  EXPECT_THAT(refusal({"--synthetic", "8", "--train", "a"}).what(),
              testing::HasSubstr("cannot be combined with --train"));
}

TEST(Recipes, YieldToTheConfigFile) {
  const TestFolder folder;
  const std::string path = folder / "config.json";
  write_file_atomically(
      path, R"({"recipe": "torchvision-v1", "optimizer-momentum": 0.5, "init": "b.pt"})");
  const TrainOptions options = parse({"--config", path.c_str()});
  EXPECT_EQ(options.optimizer.rule.momentum, 0.5);
  EXPECT_EQ(options.norm_kind(), Norm::kFrozen);
  EXPECT_EQ(options.total_steps(10), 260) << "26 epochs";
}

TEST(Recipes, AreEachAValidConfiguration) {
  for (const auto& [name, facts, apply] : recipes()) {
    for (const char* init : {"backbone.pt", "none"}) {
      EXPECT_NO_THROW(parse({"--recipe", name.c_str(), "--init", init})) << name << " " << init;
    }
  }
}

TEST(Recipes, RefuseToBeginWithoutTheirBackbone) {
  for (const auto& [name, weights] :
       {std::pair{"torchvision-v1", "imagenet-v1"}, std::pair{"torchvision-v2", "imagenet-v2"},
        std::pair{"keras-retinanet", "imagenet-v1"}, std::pair{"atss", "imagenet-v1"},
        std::pair{"gfl", "imagenet-v1"}}) {
    const Error error = refusal({"--recipe", name});
    EXPECT_EQ(error.kind(), ErrorKind::kConfig) << name;
    EXPECT_THAT(error.what(), testing::HasSubstr("--init is missing"));
    EXPECT_THAT(error.hint(), testing::HasSubstr(cat("make weights DATA=. WEIGHTS=", weights,
                                                     " (without the sources: ")));
    EXPECT_THAT(error.hint(), testing::HasSubstr(cat("), then --init ", weights, "; ")));
    EXPECT_NO_THROW(parse({"--recipe", name, "--synthetic", "8"})) << "a speed test";
  }
  EXPECT_NO_THROW(parse({}));
}

// torchvision freezes the norm and three stages where a backbone is given, else it trains all.
TEST(Recipes, TrainAsTheirBackboneAsks) {
  const auto with = [](const char* recipe, const char* init) {
    return parse({"--recipe", recipe, "--init", init});
  };
  for (const char* recipe : {"torchvision-v1", "torchvision-v2", "keras-retinanet"}) {
    const bool v2 = recipe == std::string("torchvision-v2");
    const TrainOptions trained = with(recipe, "b.pt"), scratch = with(recipe, "none");
    EXPECT_FALSE(trained.from_scratch());
    EXPECT_EQ(trained.norm_kind(), v2 ? Norm::kBatch : Norm::kFrozen) << recipe;
    EXPECT_EQ(trained.layers_to_train(), recipe == std::string("keras-retinanet") ? 5 : 3);
    EXPECT_EQ(trained.model.sync_bn, v2) << recipe;
    EXPECT_TRUE(scratch.from_scratch());
    EXPECT_EQ(scratch.norm_kind(), Norm::kBatch) << recipe;
    EXPECT_EQ(scratch.layers_to_train(), 5) << recipe;
  }
}

TEST(Recipes, HaveKerasRetinanetsMaths) {
  const TrainOptions options = parse({"--recipe", "keras-retinanet", "--init", "backbone.pt"});
  const LossOptions& loss = options.loss;
  EXPECT_EQ(loss.box.kind, BoxLossKind::kSmoothL1);
  EXPECT_DOUBLE_EQ(loss.box.smooth_l1_beta, 1.0 / 9);
  EXPECT_DOUBLE_EQ(loss.box.target_std, 0.2);
  EXPECT_FALSE(loss.match.low_quality_matches);
  EXPECT_EQ(options.model_config(3).anchor_offset, 0.5);
  EXPECT_TRUE(options.model_config(3).p6_from_c5);
  EXPECT_EQ(options.optimizer.clip_norm, 0.001);
  EXPECT_EQ(options.length.steps_per_epoch, 10000);
  EXPECT_EQ(options.total_steps(options.length.steps_per_epoch), 500000) << "50 short epochs";
  EXPECT_EQ(options.adaptive_schedule(10000).schedule.kind, ScheduleKind::kPlateau);
  EXPECT_EQ(options.adaptive_schedule(10000).plateau_patience, 2);
}

TEST(Sizes, MediumIsWhatTheOptionsDefaultTo) {
  EXPECT_EQ(parse({"--size", "medium"}).model_config(3), parse({}).model_config(3));
}

TEST(Sizes, GrowFromNanoToLargeAndGiveWayToOptions) {
  ModelConfig before;
  before.fpn_channels = before.head_convs = before.min_side_px = 0;
  for (const char* name : {"nano", "small", "medium", "large"}) {
    const TrainOptions options = parse({"--size", name});
    const ModelConfig config = options.model_config(3);
    EXPECT_GE(config.fpn_channels, before.fpn_channels) << name;
    EXPECT_GE(config.head_convs, before.head_convs) << name;
    EXPECT_GE(config.min_side_px, before.min_side_px) << name;
    EXPECT_NE(config.backbone, before.backbone) << name;
    before = config;
  }
  const ModelConfig own =
      parse({"--size", "nano", "--backbone", "resnet34", "--max-side", "400"}).model_config(3);
  EXPECT_EQ(own.backbone, "resnet34");
  EXPECT_EQ(own.fpn_channels, 64);
  EXPECT_EQ(own.max_side_px, 400);
  // A recipe's schedule with a size's model.
  const TrainOptions both = parse({"--recipe", "torchvision-v1", "--init", "x", "--size", "nano"});
  EXPECT_EQ(both.model_config(3).fpn_channels, 64);
  EXPECT_EQ(both.model_config(3).head_norm, HeadNorm::kNone);
  EXPECT_NE(both.model.backbone, "resnet50");
}

TEST(Options, OneAnchorALocationIsOfEightStridesUnlessItsSizesAreGiven) {
  const std::vector<double> eight_strides = {64, 128, 256, 512, 1024};
  const ModelConfig single = parse({"--anchors-per-location", "1"}).model_config(3);
  EXPECT_EQ(single.anchors_per_location, 1);
  EXPECT_EQ(single.anchor_sizes, eight_strides);
  const ModelConfig given =
      parse({"--anchors-per-location", "1", "--anchor-sizes", "32,64,128,256,512"}).model_config(3);
  EXPECT_EQ(given.anchor_sizes, default_anchor_sizes());
  EXPECT_EQ(parse({}).model_config(3).anchors_per_location, 9);
  EXPECT_EQ(parse({}).model_config(3).anchor_sizes, default_anchor_sizes());
}

TEST(Recipes, HaveAdaptiveSelectionForTwelveEpochs) {
  for (const char* name : {"atss", "gfl"}) {
    const TrainOptions options = parse({"--recipe", name, "--init", "backbone.pt"});
    const bool is_gfl = name == std::string("gfl");
    EXPECT_EQ(options.loss.assigner, Assigner::kAtss);
    EXPECT_EQ(options.loss.class_loss,
              is_gfl ? ClassLossKind::kQualityFocal : ClassLossKind::kFocal);
    EXPECT_EQ(options.loss.box.kind, BoxLossKind::kGiou);
    EXPECT_EQ(options.loss.box_weight, 2);
    const ScheduleOptions schedule = options.adaptive_schedule(7393).schedule;
    EXPECT_EQ(schedule.total_steps, 12 * 7393);
    EXPECT_EQ(schedule.drop_steps, (std::vector<std::int64_t>{8 * 7393, 11 * 7393}));
    EXPECT_EQ(schedule.warmup_steps, 500);
    EXPECT_EQ(options.effective_lr(), 0.01);
    EXPECT_FALSE(options.model_config(3).p6_from_c5);
  }
}

TEST(Loss, PartsOfAnotherAssignerOrLossAreRefused) {
  for (const auto& [option, part, chosen] :
       {std::array{"--assigner", "atss,foreground=0.6", "--assigner atss"},
        {"--assigner", "atss,background=0.3", "--assigner atss"},
        {"--class-loss", "varifocal,alpha=0.5", "--class-loss varifocal"},
        {"--class-loss", "varifocal,gamma=1.5", "--class-loss varifocal"},
        {"--box-loss", "l1,beta=0.5", "--box-loss l1"}}) {
    const Error error = refusal({option, part});
    EXPECT_EQ(error.kind(), ErrorKind::kUsage) << part;
    EXPECT_THAT(error.what(), testing::HasSubstr(cat(": has no effect with ", chosen)));
  }
  EXPECT_EQ(refusal({"--recipe", "keras-retinanet", "--init", "none", "--assigner", "atss"}).kind(),
            ErrorKind::kUsage);
  EXPECT_NO_THROW(parse({"--assigner", "atss,foreground=0.5", "--class-loss",
                         "quality-focal,alpha=0.25", "--box-loss", "ciou"}));
  EXPECT_NO_THROW(
      parse_with(R"({"low-quality-matches": "on"})",
                 {"--recipe", "keras-retinanet", "--init", "none", "--assigner", "atss"}));
  EXPECT_THAT(refusal({"--low-quality-matches", "off"}).what(),
              testing::HasSubstr("for recipes and --config FILE.json only"));
}

TEST(LearningRateScaling, IsByTheRecipesReferenceImagesPerStep) {
  EXPECT_DOUBLE_EQ(parse({"--images-per-step", "4"}).effective_lr(), 0.01);
  EXPECT_DOUBLE_EQ(parse({"--images-per-step", "4", "--lr", "scaling=linear"}).effective_lr(),
                   0.0025);
  EXPECT_DOUBLE_EQ(parse({"--recipe", "keras-retinanet", "--init", "none", "--images-per-step", "8",
                          "--lr", "scaling=linear"})
                       .effective_lr(),
                   8e-5);
}

TEST(TrainOptions, GiveEachOptimizerItsLearningRate) {
  EXPECT_EQ(parse({}).base_lr(), 0.01);
  EXPECT_EQ(parse({"--optimizer", "adam"}).base_lr(), 1e-4);
  const TrainOptions options = parse({"--optimizer", "rmsprop"});
  EXPECT_EQ(options.base_lr(), 1e-3);
  EXPECT_EQ(options.optimizer_options().kind, OptimizerKind::kRmsprop);
  EXPECT_EQ(parse({"--optimizer", "rmsprop", "--lr", "0.5"}).base_lr(), 0.5);
}

TEST(TrainOptions, WantTheDecayOfAnInverseTimeSchedule) {
  const AdaptiveScheduleOptions adaptive_schedule =
      parse_with(R"({"lr-decay": 1e-4})", {"--lr-schedule", "inverse-time"}).adaptive_schedule(100);
  EXPECT_EQ(adaptive_schedule.schedule.kind, ScheduleKind::kInverseTime);
  EXPECT_EQ(adaptive_schedule.schedule.decay, 1e-4);
  const Error error = refusal({"--lr-schedule", "inverse-time"});
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_THAT(error.what(), testing::HasSubstr("lr-decay is missing"));
  for (const char* name : {"lr-schedule", "lr-decay"}) {
    EXPECT_FALSE(may_change(name)) << "a run continues on the curve that it began with";
  }
}

TEST(TrainOptions, WantASizeForSyntheticImages) {
  const ImageSize size = parse({"--synthetic", "8,size=800x600"}).synthetic_image_size();
  EXPECT_EQ(size.width, 800);
  EXPECT_EQ(size.height, 600);
  for (const char* bad : {"800", "800x", "x600", "800x600px", "0x600", "800x-6", "16385x1"}) {
    const Error error = refusal({"--synthetic", cat("8,size=", bad).c_str()});
    EXPECT_THAT(error.what(), testing::HasSubstr("--synthetic size: bad value")) << bad;
  }
}

TEST(TrainOptions, WantAValidationSetForWhatJudgesByIt) {
  EXPECT_THROW(parse({"--early-stop", "3"}), Error);
  EXPECT_THROW(parse({"--lr-schedule", "plateau,metric=ap"}), Error);
  EXPECT_NO_THROW(parse({"--early-stop", "3", "--validation", "v"}));
}

TEST(TrainOptions, WantRegularValidationsForWhatJudgesByThem) {
  const auto judged = [](const char* option, const char* value) {
    return std::vector<const char*>{option, value, "--validation", "v", "--validate-every", "0"};
  };
  const Error error = refusal(judged("--early-stop", "3"));
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_THAT(error.what(), testing::HasSubstr("--early-stop: with --validate-every 0"));
  EXPECT_THROW(parse(judged("--lr-schedule", "plateau,metric=ap")), Error);
  EXPECT_NO_THROW(parse(judged("--lr-schedule", "plateau")));
}

TEST(TrainOptions, ShareStatisticsOfATrainedNormOnly) {
  EXPECT_FALSE(parse({}).model.sync_bn);
  EXPECT_TRUE(parse({"--sync-bn", "on"}).model.sync_bn);
  EXPECT_TRUE(parse({"--sync-bn", "on", "--norm", "batch", "--init", "c.pt"}).model.sync_bn);
  EXPECT_NO_THROW(parse({"--sync-bn", "off", "--norm", "frozen"}));
  for (const auto& frozen : {std::pair{"--norm", "frozen"}, std::pair{"--init", "c.pt"}}) {
    const Error error = refusal({"--sync-bn", "on", frozen.first, frozen.second});
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    EXPECT_THAT(error.hint(), testing::HasSubstr("--norm batch"));
  }
}

TEST(TrainOptions, TakeNoDataWithSynthetic) {
  const TrainOptions options = parse({"--synthetic", "32", "--images-per-step", "2"});
  EXPECT_FALSE(options.writes());
  EXPECT_EQ(options.total_steps(16), 16) << "one pass unless said otherwise";
  EXPECT_THROW(parse({"--synthetic", "32", "--train", "x"}), Error);
}

TEST(TrainOptions, SayHowGradientsTravel) {
  const BucketOptions plain = parse({}).bucket_options();
  EXPECT_EQ(plain.bucket_bytes, 0U) << "the default, or as the run began";
  EXPECT_EQ(plain.wire.type, ElementType::kFloat32);
  EXPECT_FALSE(plain.wire.ordered);
  const BucketOptions chosen = parse_with(R"({"bucket-mb": 0.5, "overlap-reduce": "off"})",
                                          {"--wire", "fp16", "--deterministic-reduce", "on"})
                                   .bucket_options();
  EXPECT_TRUE(plain.overlap);
  EXPECT_FALSE(chosen.overlap);
  EXPECT_EQ(chosen.bucket_bytes, 512U << 10);
  EXPECT_EQ(chosen.wire.type, ElementType::kFloat16);
  EXPECT_TRUE(chosen.wire.ordered);
  for (const char* name : {"wire", "deterministic-reduce", "overlap-reduce", "bucket-mb"}) {
    EXPECT_TRUE(may_change(name)) << name;
  }
}

TEST(TrainOptions, MayChangeHowExactProductsAre) {
  EXPECT_TRUE(parse({}).compute.tf32);
  EXPECT_TRUE(may_change("precision-tf32"));  // as the device may
}

TEST(TrainOptions, RefuseValuesOutOfRange) {
  for (const auto& [name, value] :
       std::vector<std::pair<const char*, const char*>>{{"--ema", "1"},
                                                        {"--ema", "-0.1"},
                                                        {"--min-side", "800,2000"},
                                                        {"--lr-schedule", "plateau,patience=0"},
                                                        {"--steps-per-epoch", "-1"},
                                                        {"--expect-ranks", "-2"},
                                                        {"--threads", "-1"},
                                                        {"--threads", "1025"},
                                                        {"--assigner", "background=0.7"},
                                                        {"--class-loss", "alpha=2"},
                                                        {"--wire", "int8"},
                                                        {"--precision", "tf32=auto"},
                                                        {"--fused-convolutions", "auto"},
                                                        {"--cuda-graphs", "on"},
                                                        {"--optimizer", "momentum=1"},
                                                        {"--recipe", "detectron"}}) {
    EXPECT_EQ(refusal({name, value}).kind(), ErrorKind::kUsage) << name << " " << value;
  }
}

TEST(TrainOptions, NameTheRangeOfNumbersThatAreTooLarge) {
  struct Case {
    const char *name, *value, *range;
  };
  const char* const most = "9223372036854775807";  // of 64 bits
  for (const Case& one :
       std::vector<Case>{{"--epochs", "6148914691236517206", "1 to 1000000000"},
                         {"--steps", most, "1 to 1000000000"},
                         {"--steps-per-epoch", most, "0 to 1000000000"},
                         {"--warmup-steps", most, "0 to 1000000000"},
                         {"--checkpoint-every", "1e30steps", "up to 1000000000"},
                         {"--checkpoint-every", "1e300min", "up to 1000000000"},
                         {"--lr-drop-at", "2epochs,1e30epochs", "up to 1000000000"},
                         {"--for", "1e308days", "up to 36500days"},
                         {"--compute-threads", "1000000", "0 to 1024"},
                         {"--threads", "1000000", "0 to 1024"},
                         {"--images-per-step", "2147483647", "1 to 65536"},
                         {"--micro-batch", "2147483647", "0..65536"},
                         {"--micro-batch", "most", "auto or 0..65536"},
                         {"--keep", "2147483647", "1 to 1000000"}}) {
    const Error error = refusal({one.name, one.value});
    EXPECT_EQ(error.kind(), ErrorKind::kUsage) << one.name;
    EXPECT_THAT(error.what(), testing::HasSubstr(one.name));
    EXPECT_THAT(error.what(), testing::HasSubstr(one.range));
  }
  EXPECT_THAT(refusal({"--synthetic", most}).what(), testing::HasSubstr("0 to 10000000"));
}

TEST(TrainOptions, CountStepsWithoutOverflow) {
  const TrainOptions longest = parse({"--epochs", "1000000000"});
  const std::int64_t most_in_epoch = std::int64_t{1} << 32;  // records are counted in 32 bits
  EXPECT_EQ(longest.total_steps(most_in_epoch) / most_in_epoch, 1'000'000'000);
  const TrainOptions spans = parse({"--lr-drop-at", "1000000000epochs"});
  EXPECT_EQ(spans.adaptive_schedule(most_in_epoch).schedule.drop_steps.front() / most_in_epoch,
            1'000'000'000);
}

TEST(Task, ARecipeNamesItAndFillsWhatItNeeds) {
  const TrainOptions options = parse({"--recipe", "imagenet-resnet50"});
  EXPECT_TRUE(options.classifies());
  EXPECT_EQ(options.step_images(), 256);
  EXPECT_EQ(options.total_steps(1000), 90'000);
  EXPECT_EQ(options.effective_lr(), 0.1);
  EXPECT_EQ(options.plan_options().frame.framing, Framing::kSquare);
  EXPECT_EQ(options.plan_options().augment.crop.low, 0.08);
  EXPECT_EQ(parse({"--recipe", "imagenet-resnet50", "--images-per-step", "64"}).effective_lr(),
            0.025);
  EXPECT_EQ(refusal({"--recipe", "torchvision-v1", "--task", "classify", "--init", "none"}).kind(),
            ErrorKind::kConfig);
}

TEST(Task, KerasRecipeHas32ImagesARankAndARateTimesTheRanks) {
  const TrainOptions options = parse({"--recipe", "cifar10-keras"});
  EXPECT_EQ(options.optimizer.rule.kind, OptimizerKind::kRmsprop);
  EXPECT_EQ(options.for_ranks(1).step_images(), 32);
  EXPECT_EQ(options.for_ranks(4).step_images(), 128);
  EXPECT_DOUBLE_EQ(options.for_ranks(4).effective_lr(), 4e-4);
  const TrainOptions given = parse({"--recipe", "cifar10-keras", "--images-per-step", "100"});
  EXPECT_EQ(given.for_ranks(4).step_images(), 100) << "the command line wins";
  const ModelConfig config = options.model_config(10);
  EXPECT_EQ(config.backbone, kCifarCnn);
  EXPECT_EQ(config.image_mean[0], 0) << "pixels are divided by 255 alone";
  EXPECT_EQ(options.plan_options().augment.translation, 0.1);
}

TEST(Task, ClassifiersHaveSizesAndAugmentationOfTheirOwn) {
  const TrainOptions options = parse({"--task", "classify"});
  EXPECT_EQ(options.model_config(2).min_side_px, 224);
  EXPECT_EQ(options.model_config(2).max_side_px, 256);
  EXPECT_EQ(options.augment_set(), Augment::kCrop);
  const TrainOptions small = parse({"--task", "classify", "--backbone", "cifar-cnn"});
  EXPECT_EQ(small.model_config(10).min_side_px, 32) << "CIFAR-10's";
  EXPECT_EQ(small.model_config(10).max_side_px, 32);
  const TrainOptions tuned = parse({"--task", "classify", "--init", "weights.pt"});
  EXPECT_EQ(tuned.norm_kind(), Norm::kBatch) << "all of it learns";
  EXPECT_EQ(tuned.layers_to_train(), 5);
}

TEST(Task, OptionsThatDecideNothingInItAreRefused) {
  for (const std::vector<const char*>& wrong :
       {std::vector<const char*>{"--task", "classify", "--box-loss", "giou"},
        {"--task", "classify", "--anchor-sizes", "16,32,64,128,256"},
        {"--task", "classify", "--assigner", "atss"},
        {"--task", "classify", "--class-loss", "varifocal"},
        {"--task", "classify", "--lr-schedule", "plateau,metric=ap"},
        {"--backbone", "cifar-cnn"},
        {"--label-smoothing", "0.1"},
        {"--lr-schedule", "metric=top1"},
        {"--task", "classify", "--label-smoothing", "1"},
        {"--recipe", "cifar10-keras", "--sync-bn", "on"},
        {"--recipe", "cifar10-keras", "--min-side", "24,32"}}) {
    EXPECT_EQ(refusal(wrong).kind(), ErrorKind::kUsage) << wrong.back();
  }
}

TEST(Recipes, MlperfWarmsUpForAnEpochAndStretchesImages) {
  const TrainOptions options = parse({"--recipe", "mlperf"});
  const ScheduleOptions schedule =
      options.schedule_of({.total_steps = 700, .steps_per_epoch = 100});
  EXPECT_EQ(schedule.warmup_steps, 100);
  EXPECT_EQ(schedule.kind, ScheduleKind::kConstant);
  EXPECT_EQ(options.plan_options().frame.framing, Framing::kStretched);
  const ModelConfig model = options.model_config(264);
  EXPECT_FALSE(model.keep_ratio);
  EXPECT_EQ(model.min_side_px, 800);
  EXPECT_FALSE(model.p6_from_c5);
  EXPECT_TRUE(options.data.train_on_crowds);
}

TEST(TrainOptions, ValidationFollowsTheSidesThatTrainingDraws) {
  const TrainOptions options = parse({"--min-side", "96,128", "--max-side", "160"});
  EXPECT_EQ(options.model_config(1).min_side_px, 128);
  EXPECT_EQ(options.drawn_sides().size(), 2U);
  EXPECT_THAT(refusal({"--min-side", "800,2000"}).what(), testing::HasSubstr("--max-side"));
}

TEST(TrainOptions, OfStretchedImagesKnowNoLongerSide) {
  const TrainOptions options = parse({"--keep-ratio", "off", "--min-side", "320"});
  EXPECT_EQ(options.model_config(1).max_side_px, 320);
  EXPECT_EQ(parse({"--keep-ratio", "off", "--size", "nano"}).model_config(1).max_side_px, 320);
  EXPECT_NO_THROW(parse({"--keep-ratio", "off", "--min-side", "64,96"}));
  EXPECT_EQ(refusal({"--keep-ratio", "off", "--min-side", "auto"}).kind(), ErrorKind::kConfig);
}

TEST(Recipes, BackbonesHaveNames) {
  for (const Recipe& recipe : recipes()) {
    const std::string& backbone = recipe.facts.weights;
    EXPECT_TRUE(backbone.empty() || find_pretrained(backbone) != nullptr) << recipe.name;
  }
  for (const std::string& backbone : backbone_names()) {
    EXPECT_NE(find_backbone("imagenet-v1", backbone), nullptr) << backbone;
  }
}

}  // namespace
}  // namespace retina
