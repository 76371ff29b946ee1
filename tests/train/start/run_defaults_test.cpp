#include "train/start/run_defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "shared/base/error.h"
#include "shared/cli/cli.h"
#include "train/start/fit_time.h"
#include "train/start/recipes.h"

namespace retina {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A command, and what the data make of it.
struct Command {
  explicit Command(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), {"retina-train", "--train", "shards", "--output", "run"});
    declare_options(cli, options);
    EXPECT_EQ(cli.parse(static_cast<int>(arguments.size()), arguments.data()), CliOutcome::kRun);
  }
  const TrainOptions& on(const RunStart& start) {
    notes = decide_run(cli, options, start);
    cli.check();
    return options;
  }

  TrainOptions options = {};
  Cli cli{"retina-train", "", ""};
  std::vector<std::string> notes = {};
};

using Texts = OptionTexts;

const RunStart kPhotographs{.image_count = 179, .steps_per_epoch = 12};
const RunStart kCoco{.image_count = 118'287, .steps_per_epoch = 7393};

TEST(RunDefaults, OfASmallSetMakeItLongEnoughToReachItsRate) {
  Command command({});
  const TrainOptions& options = command.on(kPhotographs);
  EXPECT_EQ(options.recipe, kSmallRecipe);
  EXPECT_EQ(options.length.epochs, 250) << "3000 steps";
  EXPECT_EQ(options.validation.every_epochs, 10) << "some 26 validations";
  EXPECT_EQ(options.checkpoints.every, "10epochs");
  const ScheduleOptions schedule = options.adaptive_schedule(12).schedule;
  EXPECT_EQ(schedule.warmup_steps, 300);
  EXPECT_THAT(schedule.drop_steps, ElementsAre(1846, 2538));
  ASSERT_EQ(command.notes.size(), 2U);
  EXPECT_THAT(command.notes[0], HasSubstr("recipe small, chosen because 179 images"));
  EXPECT_THAT(command.notes[0], HasSubstr("--recipe none"));
  EXPECT_THAT(command.notes[1], HasSubstr("250 epochs, chosen because 26"));
  EXPECT_THAT(length_text(options, 12), HasSubstr("250 epochs of 12 steps, 3000 in all; warm-up of "
                                                  "300 steps"));
  EXPECT_THAT(length_text(options, 12), HasSubstr("drops at steps 1846 and 2538"));
  EXPECT_EQ(warmup_warning(options, 12), "");
}

// A length that is refitted moves the drops to come, not those that have been made.
TEST(RunDefaults, KeepDropsThatHaveBeenMade) {
  const std::vector<std::string> shares = {"16/26", "22/26"};
  EXPECT_EQ(with_drops_made(shares, {160, 220}, 160), shares);
  EXPECT_THAT(with_drops_made(shares, {160, 220}, 161), ElementsAre("160steps", "22/26"));
  EXPECT_THAT(with_drops_made(shares, {160, 220}, 300), ElementsAre("160steps", "220steps"));
  EXPECT_EQ(with_drops_made(shares, {2}, 2), shares) << "which of them is not known";
}

TEST(RunDefaults, OfALargeSetAreTorchvisions) {
  Command command({});
  const TrainOptions& options = command.on(kCoco);
  EXPECT_EQ(options.recipe, kAutoRecipe);
  EXPECT_EQ(options.length.epochs, 26);
  EXPECT_EQ(options.validation.every_epochs, 1);
  EXPECT_EQ(options.checkpoints.every, "1epoch");
  const ScheduleOptions schedule = options.adaptive_schedule(7393).schedule;
  EXPECT_EQ(schedule.warmup_steps, 1000);
  EXPECT_THAT(schedule.drop_steps, ElementsAre(16 * 7393, 22 * 7393));
  EXPECT_EQ(options.effective_lr(), 0.01);
  EXPECT_THAT(command.notes, IsEmpty());
}

TEST(RunDefaults, FollowTheLengthThatIsGiven) {
  for (const std::vector<const char*>& length :
       {std::vector<const char*>{"--steps", "260"}, {"--epochs", "26"}}) {
    Command command(length);
    const TrainOptions& options = command.on({.image_count = 179, .steps_per_epoch = 10});
    const ScheduleOptions schedule = options.adaptive_schedule(10).schedule;
    EXPECT_EQ(schedule.total_steps, 260);
    EXPECT_EQ(schedule.warmup_steps, 26);
    EXPECT_THAT(schedule.drop_steps, ElementsAre(160, 220));
    EXPECT_EQ(options.validation.every_epochs, 1);
  }
}

TEST(RunDefaults, YieldToWhatIsGiven) {
  Command command({"--warmup-steps", "1000", "--lr-drop-at", "3epochs", "--ema", "0",
                   "--validate-every", "2", "--validation", "v"});
  const TrainOptions& options = command.on(kPhotographs);
  EXPECT_EQ(options.optimizer.ema, 0);
  EXPECT_EQ(options.validation.every_epochs, 2);
  const ScheduleOptions schedule = options.adaptive_schedule(12).schedule;
  EXPECT_EQ(schedule.warmup_steps, 1000);
  EXPECT_THAT(schedule.drop_steps, ElementsAre(36));
}

TEST(RunDefaults, TakeTheRecipeOfADetectorsWeightsOnlyForAWholeDetector) {
  RunStart start = kPhotographs;
  start.has_detector = true;
  Command tuned({"--init", "detector.pt"});
  EXPECT_EQ(tuned.on(start).recipe, kFinetuneRecipe);
  EXPECT_EQ(tuned.options.length.epochs, 84) << "1000 steps";
  EXPECT_LT(tuned.options.effective_lr(), 0.01);
  EXPECT_THAT(tuned.notes[0], HasSubstr("recipe finetune"));
  Command backbone({"--init", "resnet.pt"});
  EXPECT_EQ(backbone.on(kPhotographs).recipe, kSmallRecipe);
  EXPECT_EQ(backbone.options.norm_kind(), Norm::kBatch);
  EXPECT_EQ(backbone.options.layers_to_train(), 5);
  Command large({"--init", "detector.pt"});
  start.image_count = kCoco.image_count;
  start.steps_per_epoch = kCoco.steps_per_epoch;
  EXPECT_EQ(large.on(start).length.epochs, 12);
}

TEST(RunDefaults, ScaleTheLearningRateWithTheBatchUnlessItIsGiven) {
  Command plain({"--images-per-step", "4"});
  EXPECT_DOUBLE_EQ(plain.on(kCoco).effective_lr(), 0.0025);
  Command given({"--images-per-step", "4", "--lr", "0.01"});
  EXPECT_EQ(given.on(kCoco).effective_lr(), 0.01);
  Command unscaled({"--images-per-step", "4", "--lr", "scaling=none"});
  EXPECT_EQ(unscaled.on(kCoco).effective_lr(), 0.01);
}

// The recipe's rate would be far off with another optimizer.
TEST(RunDefaults, GiveAnotherOptimizerItsOwnRate) {
  Command rate({"--lr", "0.0002"});
  EXPECT_EQ(rate.on(kPhotographs).optimizer.rule.kind, OptimizerKind::kAdamW);
  EXPECT_EQ(rate.options.effective_lr(), 0.0002);
  Command same({"--optimizer", "adamw", "--images-per-step", "4"});
  EXPECT_EQ(same.on(kPhotographs).effective_lr(), 4e-4) << "for any number of images";
  Command rule({"--optimizer", "sgd"});
  EXPECT_EQ(rule.on(kPhotographs).effective_lr(), 0.01);
  EXPECT_EQ(rule.options.recipe, kSmallRecipe);
}

// What the recipe says of an option that belongs to one that is given is not for it.
TEST(RunDefaults, OfLossesAndOrderGiveWayToWhatIsGiven) {
  Command plain({});
  EXPECT_EQ(plain.on(kPhotographs).loss.class_loss, ClassLossKind::kQualityFocal);
  EXPECT_EQ(plain.options.loss.box_weight, 2);
  EXPECT_EQ(plain.options.data.shuffle, Shuffle::kGlobal);
  Command alpha({"--class-loss", "alpha=0.5"});
  EXPECT_EQ(alpha.on(kPhotographs).loss.class_loss, ClassLossKind::kFocal);
  EXPECT_EQ(alpha.options.loss.box_weight, 2);
  Command box({"--box-loss", "smooth-l1"});
  EXPECT_EQ(box.on(kPhotographs).loss.box_weight, 1);
  EXPECT_EQ(box.options.loss.class_loss, ClassLossKind::kQualityFocal);
  Command limit({"--stage-limit", "5GiB"});
  EXPECT_EQ(limit.on(kPhotographs).data.shuffle, Shuffle::kSharded);
}

TEST(RunDefaults, LeaveNamedRecipesAlone) {
  std::vector<std::string> names = {kNoRecipe};
  for (const Recipe& recipe : recipes()) {
    if (!recipe.facts.fits_data) names.push_back(recipe.name);
  }
  ASSERT_EQ(names.size(), 9U);
  for (const std::string& name : names) {
    Command command({"--recipe", name.c_str(), "--init", "none"});
    command.on(kPhotographs);
    EXPECT_EQ(command.cli.decisions(), "{}") << name;
    EXPECT_THAT(command.notes, IsEmpty()) << name;
  }
}

// 26 epochs, 1000 warm-up steps and drops at 16 and 22 epochs.
TEST(RunDefaults, OfNoRecipeDoNotFollowFromTheData) {
  Command command({"--recipe", "none", "--images-per-step", "4"});
  const TrainOptions& options = command.on(kPhotographs);
  const ScheduleOptions schedule = options.adaptive_schedule(12).schedule;
  EXPECT_EQ(schedule.total_steps, 312);
  EXPECT_EQ(schedule.warmup_steps, 1000);
  EXPECT_THAT(schedule.drop_steps, ElementsAre(192, 264));
  EXPECT_EQ(options.effective_lr(), 0.01);
  EXPECT_EQ(options.optimizer.ema, 0);
  EXPECT_THAT(warmup_warning(options, 12),
              HasSubstr("the run ends in its warm-up (312 steps, warm-up of 1000)"));
}

// Shares of their own lengths are the spans that they were published with; of another length they
// keep the spans.
TEST(RunDefaults, HaveTheShapeOfPublishedRecipes) {
  for (const char* name : {"torchvision-v1", "torchvision-v2"}) {
    for (const std::int64_t epoch_steps : {63, 1000, 7393}) {
      Command recipe({"--recipe", name, "--init", "none"});
      const ScheduleOptions theirs = recipe.options.adaptive_schedule(epoch_steps).schedule;
      Command shares({"--recipe", name, "--init", "none", "--warmup-steps", "auto", "--lr-drop-at",
                      "16/26,22/26"});
      const ScheduleOptions ours = shares.options.adaptive_schedule(epoch_steps).schedule;
      EXPECT_EQ(theirs.drop_steps, ours.drop_steps) << name << " " << epoch_steps;
      EXPECT_EQ(theirs.total_steps, 26 * epoch_steps);
      EXPECT_EQ(theirs.warmup_steps, 1000);
      if (26 * epoch_steps < 10'000) continue;
      for (std::int64_t step = 0; step < theirs.total_steps; step += 997) {
        ASSERT_EQ(learning_rate(theirs, step), learning_rate(ours, step)) << step;
      }
    }
    Command shorter({"--recipe", name, "--init", "none", "--epochs", "5"});
    EXPECT_THAT(shorter.options.adaptive_schedule(100).schedule.drop_steps,
                ElementsAre(1600, 2200));
  }
}

TEST(RunDefaults, OfARunThatContinuesAreThoseItBeganWith) {
  RunStart start{.image_count = 5000, .steps_per_epoch = 313};
  start.before = Texts{{"recipe", "small"},      {"epochs", "250"},
                       {"validate-every", "10"}, {"class-loss", "quality-focal"},
                       {"box-loss-weight", "2"}, {"shuffle", "global"}};
  Command same({});
  EXPECT_EQ(same.on(start).recipe, kSmallRecipe);
  EXPECT_EQ(same.options.loss.class_loss, ClassLossKind::kQualityFocal);
  EXPECT_EQ(same.options.loss.box_weight, 2);
  EXPECT_EQ(same.options.data.shuffle, Shuffle::kGlobal);
  EXPECT_EQ(same.options.length.epochs, 250);
  EXPECT_EQ(same.options.validation.every_epochs, 10);
  EXPECT_THAT(same.notes, ElementsAre("recipe small, as the run began"));
  Command longer({"--epochs", "300"});
  EXPECT_EQ(longer.on(start).length.epochs, 300);
  EXPECT_EQ(longer.options.recipe, kSmallRecipe);
  start.before->insert_or_assign("shuffle", "sharded");  // with --stage-limit, which may go
  start.before->insert_or_assign("stage-limit", "1GiB");
  Command unlimited({});
  EXPECT_EQ(unlimited.on(start).data.shuffle, Shuffle::kSharded);
  // Runs that named another recipe.
  for (const char* before : {"none", "torchvision-v1"}) {
    start.before = Texts{{"recipe", before}, {"warmup-steps", "1000"}};
    Command old({});
    EXPECT_EQ(old.on(start).recipe, kNoRecipe);
    EXPECT_EQ(old.options.adaptive_schedule(313).schedule.warmup_steps, 1000);
    EXPECT_EQ(old.options.total_steps(313), 26 * 313);
  }
}

TEST(RunDefaults, OfClassifiersAndSpeedTests) {
  Command classifier({"--task", "classify"});
  EXPECT_EQ(classifier.on(kPhotographs).recipe, kAutoRecipe);
  EXPECT_EQ(classifier.options.length.epochs, 125);
  std::vector<const char*> words = {"retina-train", "--synthetic", "32"};
  TrainOptions options;
  Cli cli("retina-train", "", "");
  declare_options(cli, options);
  cli.parse(static_cast<int>(words.size()), words.data());
  decide_run(cli, options, {.image_count = 32, .steps_per_epoch = 2});
  EXPECT_EQ(options.recipe, kNoRecipe);
  EXPECT_EQ(options.total_steps(2), 2);
}

TEST(LengthChange, SaysWhatAnotherLengthChanges) {
  const auto schedule = [](Command& command, std::int64_t epochs) {
    return command.options.schedule_of({.total_steps = epochs * 10, .steps_per_epoch = 10});
  };
  Command shares({});
  shares.on(kCoco);
  EXPECT_EQ(length_change_text(schedule(shares, 26), schedule(shares, 26), 7), "");
  EXPECT_EQ(
      length_change_text(schedule(shares, 26), schedule(shares, 52), 200),
      "continues at step 200 with another length: 520 steps (was 260); the learning rate drops "
      "at steps 320 and 440 (was: drops at steps 160 and 220) and is 0.01 from here on (was to "
      "be 0.001)");
  Command spans({"--recipe", "none"});
  EXPECT_EQ(length_change_text(schedule(spans, 26), schedule(spans, 52), 5),
            "continues at step 5 with another length: 520 steps (was 260); the learning rate drops "
            "at steps 160 and 220 and stays 5.995e-05 here");
  Command cosine({"--lr-schedule", "cosine"});
  cosine.on(kCoco);
  EXPECT_THAT(length_change_text(schedule(cosine, 26), schedule(cosine, 52), 260),
              HasSubstr("the learning rate schedule is cosine and is 0.005 from here on (was to be "
                        "0)"));
}

// Seconds of so many steps, with the validations after them and the one at the end.
double seconds_of(double steps, double since) {
  constexpr double kStep = 2, kValidation = 9, kPeriod = 10;
  return steps * kStep + std::floor((since + steps) / kPeriod) * kValidation + kValidation;
}

TEST(FittingSteps, AreAsManyAsFitWithTheValidationsBetweenThem) {
  for (const double since : {0.0, 1.0, 9.0}) {
    for (double seconds = 10; seconds < 100; seconds += .5) {
      const double steps = fitting_steps(seconds, 2, 9, 10, since);
      EXPECT_LE(seconds_of(steps - .001, since), seconds) << seconds << " " << since;
      EXPECT_GT(seconds_of(steps + .51, since), seconds) << seconds << " " << since;
    }
  }
  TrainOptions at_end;
  at_end.validation.every_epochs = 0;
  EXPECT_EQ(fitting_steps(109, 2, 9, steps_between_validations(at_end, 7)), 50);
}

// Portraits and landscapes in one step are padded to squares.
TEST(MeanPixels, CountWhatAStepOfMixedImagesIsPaddedTo) {
  ImageIndex index;
  for (int i = 0; i < 8; ++i) {
    IndexEntry entry;
    std::tie(entry.width, entry.height) = i % 2 == 0 ? std::pair(640, 320) : std::pair(320, 640);
    index.push_back(entry);
  }
  TrainOptions options;
  options.length.images_per_step = 4;
  const InputSides sides = {.min_px = 160, .max_px = 320};
  EXPECT_EQ(mean_pixels(index, options, sides), 160 * 320);
  options.data.shuffle = Shuffle::kGlobal;
  options.length.images_per_step = 8;
  EXPECT_EQ(mean_pixels(index, options, sides), 320 * 320);
  options.length.images_per_step = 100;  // more than there are
  EXPECT_EQ(mean_pixels(index, options, sides), 320 * 320);
}

}  // namespace
}  // namespace retina
