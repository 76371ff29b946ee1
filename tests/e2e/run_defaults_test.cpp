// Without options, the data decide how a run is trained; a run that continues keeps it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <sstream>

#include "shared/anchor/anchor_fit.h"
#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/base/host.h"
#include "shared/base/json.h"
#include "shared/image/resize.h"
#include "shared/shard/shard_set.h"
#include "tests/convert/make_checkpoint.h"
#include "tests/e2e/job.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

using testing::ContainsRegex, testing::HasSubstr;
using testing::Not;

// Next to nothing of how to train: sizes, so that it takes seconds.
std::vector<std::string> plain_command(const Job& job, const std::string& run,
                                       const std::vector<std::string>& more) {
  return joined(joined({"retina-train", "--train", job.train_shards(), "--output", run},
                       words("--backbone resnet18 --min-side 64 --max-side 96 --device cpu "
                             "--threads 1 --compute-threads 1 --images-per-step 4")),
                more);
}

JsonFile config_of(const std::string& run) {
  return JsonFile::read(run + "/config.json");
}

TEST(RunDefaults, AreToldKeptAndMovedByAnotherLength) {
  const Job job;
  const std::string run = job / "run";
  const ProcessResult first = run_process(plain_command(job, run, {"--steps", "2"}));
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("recipe small, chosen because 8 images are few"));
  EXPECT_THAT(first.err, HasSubstr("2 steps; warm-up of 0 steps"));
  EXPECT_THAT(first.err, HasSubstr("drops at step 1"));
  const JsonFile config = config_of(run);
  EXPECT_EQ(config.root().at("options").at("recipe").as_string(), "small");
  EXPECT_EQ(config.root().at("schedule").at("total_steps").as_int(), 2);
  EXPECT_EQ(config.root().at("schedule").at("drop_steps").at(std::size_t{0}).as_int(), 1);

  const auto longer = plain_command(job, run, {"--steps", "4"});
  const ProcessResult second = run_process(longer);
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(second.err, HasSubstr("recipe small, as the run began"));
  EXPECT_THAT(second.err, HasSubstr("continues at step 2 with another length: 4 steps (was 2); the "
                                    "learning rate drops at steps 2 and 3 (was: drops at step 1)"));
  EXPECT_THAT(read_file(run + "/metrics.jsonl"),
              HasSubstr(R"({"step":2,"total_steps":4,"total_steps_before":2})"));
  EXPECT_THAT(read_file(run + "/report.html"), HasSubstr(R"({"x":2,"text":"now 4 steps"})"));
  EXPECT_EQ(steps_logged(run), 4);

  // Nothing changes for who gives no length; the mark stays.
  const ProcessResult third = run_process(plain_command(job, run, {}));
  EXPECT_EQ(third.exit_code, 0) << third.err;
  EXPECT_THAT(third.out, HasSubstr("already finished"));
  EXPECT_EQ(config_of(run).root().at("options").at("steps").as_int(), 4);
}

TEST(RunDefaults, ChangeImagesThatAreSeenOftenAsTheRunBegan) {
  const Job job;
  const std::string note = "--augment light, chosen because each image is seen ";
  const auto fresh = plain_command(job, job / "fresh", {"--epochs", "20", "--check-args"});
  EXPECT_THAT(run_process(fresh).out, HasSubstr(note + "20 times"));
  const std::string run = job / "run";
  const ProcessResult first = run_process(plain_command(job, run, {"--epochs", "1"}));
  EXPECT_EQ(first.exit_code, 0);
  EXPECT_THAT(first.err, Not(HasSubstr(note)));
  // Other changes would make it another run, which is refused.
  const ProcessResult longer = run_process(plain_command(job, run, {"--epochs", "20"}));
  EXPECT_EQ(longer.exit_code, 0) << longer.err;
  EXPECT_THAT(read_file(run + "/config.json"), Not(HasSubstr("\"light\"")));
}

TEST(RunDefaults, LeaveARunWithoutARecipeWithoutOne) {
  const Job job;
  const std::string run = job / "run";
  ASSERT_EQ(run_process(plain_command(job, run, {"--steps", "1", "--recipe", "none"})).exit_code,
            0);
  const ProcessResult again = run_process(plain_command(job, run, {"--steps", "2"}));
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("and stays 1.999e-05 here"));
  EXPECT_THAT(again.err, HasSubstr("the run ends in its warm-up (2 steps, warm-up of 1000)"));
  EXPECT_EQ(config_of(run).root().at("options").at("recipe").as_string(), "none");
}

TEST(RunDefaults, FineTuneADetectorAndFitItsAnchors) {
  const Job job;
  ASSERT_EQ(run_process(plain_command(job, job / "run", {"--steps", "1"})).exit_code, 0);
  const std::vector<std::string> more = {
      "--steps", "1", "--init", last_checkpoint(job / "run"), "--anchor-sizes", "auto"};
  auto check = plain_command(job, job / "tuned", more);
  check.push_back("--check-args");
  const ProcessResult checked = run_process(check);
  EXPECT_EQ(checked.exit_code, 0) << checked.err;
  EXPECT_FALSE(path_exists(job / "tuned"));
  for (const char* part : {"recipe finetune, chosen because --init brings a trained detector",
                           ", chosen because they fit the boxes best", "1 step; warm-up of"}) {
    EXPECT_THAT(checked.out, HasSubstr(part));
  }
  const std::string small =
      "fit the boxes best; [0-9]+ % of these are smaller than any anchor "
      "covers, and a larger --min-side makes them larger";
  EXPECT_THAT(checked.out, ContainsRegex(small));
  set_value(check, "--min-side", "320");
  set_value(check, "--max-side", "480");
  const ProcessResult larger = run_process(check);
  EXPECT_EQ(larger.exit_code, 0) << larger.err;
  EXPECT_THAT(larger.out, Not(ContainsRegex(small)));
  const ProcessResult tuned = run_process(plain_command(job, job / "tuned", more));
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
  EXPECT_THAT(tuned.err, HasSubstr("recipe finetune"));
  const JsonFile config = config_of(job / "tuned");
  EXPECT_EQ(config.root().at("options").at("anchor-sizes").size(), 5U);
  EXPECT_LT(config.root().at("effective_lr").as_double(), 0.0025);
  // The boxes of scenes are small at 64 px.
  EXPECT_LT(config.root().at("options").at("anchor-sizes").at(std::size_t{0}).as_double(), 32);
}

std::string first_line_with(const std::string& text, const std::string& part) {
  const std::size_t at = text.find(part), begin = text.rfind('\n', at) + 1;
  return at == std::string::npos ? "" : text.substr(begin, text.find('\n', at) - begin);
}

// As good anchors as by each box itself, and from two sets whose records nobody can read.
// A network, an image size and a length that fit the time, and the same ones again afterwards.
TEST(RunDefaults, ChooseWhatFitsTheTimeAndKeepIt) {
  const Job job;
  const std::string run = job / "run";
  const std::vector<std::string> command =
      joined({"retina-train", "--train", job.train_shards(), "--validation", job.train_shards(),
              "--output", run},
             words("--for 12s --device cpu --threads 1 --compute-threads 1"));
  const ProcessResult first = run_process(command);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(
      first.err,
      ContainsRegex(
          "size tiny at [0-9]+ px, chosen because it is the fastest.* in 12 s on this CPU"));
  EXPECT_THAT(first.err, ContainsRegex("[0-9]+ steps?, as many as fit into --for 12s"));
  EXPECT_THAT(first.out,
              ContainsRegex("AP [0-9.]+.*; next: give it more time: it made only [0-9]+ step"));
  EXPECT_THAT(read_file(run + "/report.html"), HasSubstr("; next: give it more time"));
  const JsonFile config = config_of(run);
  const JsonView options = config.root().at("options");
  EXPECT_EQ(options.at("size").as_string(), "tiny");
  EXPECT_EQ(options.at("backbone").as_string(), "resnet18");
  EXPECT_EQ(options.at("images-per-step").as_int(), 4);
  EXPECT_NE(options.at("precision").as_string(), "auto");
  EXPECT_EQ(options.at("steps").as_int(), steps_logged(run));

  // The folder knows, whatever the machine is like by now.
  const std::int64_t before = steps_logged(run);
  auto again = command;
  for (const char* time : {"12s", "6s", "12s", "18s"}) {
    set_value(again, "--for", time);
    const ProcessResult second = run_process(again);
    EXPECT_EQ(second.exit_code, 0) << second.err;
    const bool is_longer = std::string(time) == "18s";
    EXPECT_EQ(second.out.find("already finished (a longer --for") == std::string::npos, is_longer);
    EXPECT_EQ(steps_logged(run) > before, is_longer) << time;
    EXPECT_THAT(second.err, Not(HasSubstr("chosen because it is")));
  }
}

std::string checked_args(const Job& job, const std::string& more) {
  const ProcessResult result = run_process(joined(
      {"retina-train", "--train", job.train_shards(), "--output", job / "run", "--check-args"},
      words("--device cpu --threads 1 " + more)));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

// Beside two busy programs a core, threads that wait for each other would wait for their turns,
// too.
TEST(RunDefaults, TakeFewerThreadsBesideBusyProgramsForARunOfGivenTime) {
  const int cores = usable_cores();
  if (cores < 2) GTEST_SKIP() << "one core";
  const Job job;
  std::vector<std::unique_ptr<ChildProcess>> busy(static_cast<std::size_t>(2 * cores));
  for (auto& one : busy) {
    one =
        std::make_unique<ChildProcess>(std::vector<std::string>{"sh", "-c", "while :; do :; done"});
  }
  const auto checked = [&](const std::string& more) {
    return checked_args(job, "--size tiny --min-side 64 --max-side 96 " + more);
  };
  const std::string fewer = " threads? beside other programs";
  EXPECT_THAT(checked("--for 1min"), ContainsRegex("measured with [0-9]+" + fewer));
  EXPECT_THAT(checked("--for 1min --compute-threads 2"), Not(ContainsRegex(fewer)));
  EXPECT_THAT(checked("--steps 10"), Not(ContainsRegex(fewer)));
}

TEST(RunDefaults, ChooseNothingThatIsGivenOrThatARecipeSays) {
  const Job job;
  const auto chosen = [&](const std::string& more) {
    return checked_args(job, "--compute-threads 1 " + more);
  };
  EXPECT_THAT(chosen("--min-side 64 --max-side 96"), ContainsRegex("size [a-z]+ at 64 px, chosen"));
  for (const char* given : {"--backbone resnet18 --min-side 64 --max-side 96", "--size nano",
                            "--recipe atss --init none --min-side 64 --max-side 96"}) {
    EXPECT_THAT(chosen(given), Not(HasSubstr("at 64 px, chosen because"))) << given;
  }
  EXPECT_THAT(chosen("--recipe atss --init none --min-side 64 --max-side 96"),
              Not(HasSubstr("of fp32's time")));
  EXPECT_EQ(run_process({"retina-train", "--train", job.train_shards(), "--output", job / "run",
                         "--for", "1h", "--epochs", "3"})
                .exit_code,
            64);
}

// As retina-run asks for with ImageNet weights.
TEST(RunDefaults, ChooseASizeWithTheBackboneThatHasWeightsAndKeepIt) {
  const Job job;
  const std::string weights = job / "resnet18.pt", sides = "--min-side 64 --max-side 96 ";
  make_checkpoint(weights, {"--task", "classify", "--backbone", "resnet18"});
  const std::string own = checked_args(job, cat(sides, "--compute-threads 1 --init ", weights));
  EXPECT_THAT(own, Not(HasSubstr("size tiny")));
  EXPECT_THAT(own, HasSubstr("recipe small, chosen because 8 images are few"));
  auto command = joined({"retina-train", "--train", job.train_shards(), "--output", job / "run"},
                        words(cat("--device cpu --threads 1 --steps 1 --size auto ", sides)));
  const auto wrong = run_process(joined(command, words("--backbone resnet50")));
  EXPECT_EQ(wrong.exit_code, 64);
  EXPECT_THAT(wrong.err,
              HasSubstr("--size auto: none for a CPU has resnet50; hint: give --size none"));
  command = joined(command, words(cat("--init ", weights)));
  const ProcessResult first = run_process(command);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("size tiny at 64 px, chosen because"));
  const JsonFile config = config_of(job / "run");
  const JsonView options = config.root().at("options");
  EXPECT_EQ(options.at("fpn-channels").as_int(), 64);
  EXPECT_EQ(options.at("norm").as_string(), "batch");
  EXPECT_EQ(options.at("trainable-layers").as_int(), 5);
  std::filesystem::remove(weights);
  EXPECT_THAT(run_process(command).out, HasSubstr("already finished"));
}

TEST(RunDefaults, FitAnchorsWithoutReadingARecord) {
  const Job job;
  std::vector<BoxSize> boxes;
  for (const std::string& folder : {job.train_shards(), job.val_shards()}) {
    const ShardSet set(folder);
    for (std::size_t place = 0; place < set.index().size(); ++place) {
      const Record record = set.read(place);
      const double scale = resized_size(record.width, record.height, 64, 96).scale;
      for (const RecordAnnotation& one : record.annotations) {
        const auto box = training_box(one, record.width, record.height);
        if (!box) continue;
        boxes.push_back({.width_px = static_cast<float>(((*box)[2] - (*box)[0]) * scale),
                         .height_px = static_cast<float>(((*box)[3] - (*box)[1]) * scale)});
      }
    }
    for (const ManifestShard& shard : set.manifest().shards) {  // of its size, so that it opens
      write_file_atomically(cat(folder, "/", shard.file.name),
                            std::string(shard.file.size_bytes, '\0'));
    }
  }
  const AnchorProposal best = propose_anchors(boxes, 1);
  const ProcessResult checked =
      run_process(plain_command(job, job / "run",
                                {"--train", job.val_shards(), "--anchor-sizes", "auto",
                                 "--assigner", "atss", "--check-args"}));
  ASSERT_EQ(checked.exit_code, 0) << checked.err;
  const std::string chosen = first_line_with(checked.out, "chosen because they fit the boxes best");
  std::vector<double> sizes;
  std::istringstream numbers(chosen.substr(std::string("--anchor-sizes ").size()));
  for (double size = 0; numbers >> size; numbers.ignore()) sizes.push_back(size);
  ASSERT_EQ(sizes.size(), 5U) << checked.out;
  const auto count = static_cast<double>(boxes.size());
  EXPECT_NEAR(static_cast<double>(count_uncovered(boxes, sizes).all()),
              static_cast<double>(best.uncovered.all()), .05 * count);
  // The note counts in whole percents.
  const auto narrow = std::count_if(boxes.begin(), boxes.end(), [](const BoxSize& box) {
    return std::min(box.width_px, box.height_px) < 8;
  });
  const std::string note = first_line_with(checked.out, "are narrower than 8 px");
  EXPECT_NEAR(std::stod(note), 100 * static_cast<double>(narrow) / count, 8) << checked.out;
}

// At 64 px some boxes of scenes are narrower than P3's cells. Of one anchor a location, through
// checkpoint and conversion.
TEST(RunDefaults, TellThatAtssLeavesSmallBoxesWithoutAnAnchor) {
  const Job job;
  const auto command = plain_command(
      job, job / "run", {"--steps", "1", "--assigner", "atss", "--anchors-per-location", "1"});
  const ProcessResult done = run_process(command);
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.err, ContainsRegex("[0-9]+ % of the boxes are narrower than 8 px"));
  auto large = plain_command(job, job / "large", {"--assigner", "atss", "--check-args"});
  set_value(large, "--min-side", "800");
  set_value(large, "--max-side", "1333");
  EXPECT_THAT(run_process(large).out, Not(HasSubstr("narrower")));
  EXPECT_EQ(config_of(job / "run").root().at("options").at("anchor-sizes").at(4).as_double(), 1024);
  const ProcessResult converted =
      run_process({"retina-convert", "--checkpoint", last_checkpoint(job / "run"), "--output",
                   job / "model.onnx"});
  EXPECT_EQ(converted.exit_code, 0) << converted.err;
}

// The rendered images are larger than 64 px; no recipe changes their size.
TEST(RunDefaults, TrainAtTheImagesOwnSize) {
  const Job job;
  const ImageIndex index = ShardSet(job.train_shards()).index();
  std::vector<int> sides;
  for (const IndexEntry& image : index) sides.push_back(std::min(image.width, image.height));
  std::sort(sides.begin(), sides.end());
  const int own = sides[(sides.size() - 1) / 2];
  auto command = plain_command(job, job / "run", {"--steps", "1", "--anchor-sizes", "auto"});
  set_value(command, "--min-side", "auto");
  command.erase(std::find(command.begin(), command.end(), "--max-side"),
                std::find(command.begin(), command.end(), "--device"));
  const ProcessResult done = run_process(command);
  ASSERT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.err, HasSubstr(cat("--min-side ", own, " --max-side ")));
  const JsonFile config = config_of(job / "run");
  const JsonView options = config.root().at("options");
  EXPECT_EQ(options.at("min-side").at(std::size_t{0}).as_int(), own);
  for (const IndexEntry& image : index) {
    const double ratio = static_cast<double>(std::max(image.width, image.height)) /
                         std::min(image.width, image.height);
    EXPECT_LT(own * ratio, static_cast<double>(options.at("max-side").as_int()) * 1.1)
        << "images of this shape are not made smaller";
  }
  // The same command continues.
  EXPECT_THAT(run_process(command).out, HasSubstr("already finished"));
  set_value(command, "--steps", "2");
  EXPECT_EQ(run_process(command).exit_code, 0);
}

TEST(RunDefaults, OwnSizesKeepWithinAMaxSideAndRefuseWhatHasSizesOfItsOwn) {
  const Job job;
  const auto check = [&](std::vector<std::string> more) {
    more.push_back("--check-args");
    auto command = plain_command(job, job / "run", more);
    set_value(command, "--min-side", "auto");
    return run_process(command);
  };
  EXPECT_THAT(check({}).out, HasSubstr("--min-side 96 --max-side 96, chosen"));
  auto zero = plain_command(job, job / "run", {"--check-args"});
  set_value(zero, "--min-side", "0");
  EXPECT_EQ(run_process(zero).exit_code, 64) << "no word for the images' own size";
}

TEST(RunDefaults, CheckArgsTellsOfTheRunThatIsThere) {
  const Job job;
  const auto result = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--recipe", "none", "--check-args"});
    return run_process(plain_command(job, job / "run", more));
  };
  const auto check = [&](const std::vector<std::string>& more) { return result(more).out; };
  const std::vector<std::string> one_step = {"--steps", "1", "--recipe", "none"};
  ASSERT_EQ(run_process(plain_command(job, job / "run", one_step)).exit_code, 0);
  const std::string finished = check({"--steps", "1"});
  EXPECT_THAT(finished, HasSubstr("run: already finished; more --steps continue it"));
  EXPECT_THAT(finished, Not(HasSubstr("memory: ")));
  EXPECT_THAT(check({"--steps", "1", "--overwrite"}), HasSubstr("which --overwrite removes\n"));
  const std::string longer = check({"--steps", "3"});
  EXPECT_THAT(longer, HasSubstr(": continues after step 1\n"));
  EXPECT_THAT(longer, HasSubstr("continues at step 1 with another length"));
  EXPECT_THAT(longer, HasSubstr("warning: the run ends in its warm-up"));
  EXPECT_THAT(longer, HasSubstr("memory: "));
  // What the run itself would refuse.
  EXPECT_EQ(result({"--steps", "3", "--optimizer", "momentum=0.5"}).exit_code, 78);
  EXPECT_EQ(result({"--resume", "never"}).exit_code, 78);
  const ProcessResult other = run_process(plain_command(
      job, job / "other",
      {"--steps", "1", "--init", job / "run", "--head-norm", "none", "--check-args"}));
  EXPECT_EQ(other.exit_code, 78);
  EXPECT_THAT(other.err, HasSubstr("architecture differs"));
  auto elsewhere = plain_command(job, job.train_shards() + "/manifest.json", {"--check-args"});
  EXPECT_EQ(run_process(elsewhere).exit_code, 73);
  EXPECT_THAT(run_process(elsewhere).err, HasSubstr("cannot create the folder"));
}

// How many steps an epoch has is known from the data alone.
TEST(RunDefaults, AreShownByCheckArgs) {
  const Job job;
  auto command = plain_command(job, job / "run", {});
  command.push_back("--check-args");
  const ProcessResult checked = run_process(command);
  EXPECT_EQ(checked.exit_code, 0) << checked.err;
  EXPECT_THAT(checked.out, HasSubstr("recipe small, chosen because 8 images"));
  EXPECT_THAT(checked.out, HasSubstr("1500 epochs of 2 steps, 3000 in all; warm-up of 300 steps"));
  EXPECT_EQ(checked.err, "");
  EXPECT_THAT(checked.out,
              ContainsRegex("\nmemory: a rank needs about .* for 4 images at a time\n"));
  EXPECT_FALSE(path_exists(job / "run"));
  command.insert(command.end(), {"--recipe", "none"});
  const ProcessResult none = run_process(command);
  EXPECT_THAT(none.out, HasSubstr("26 epochs of 2 steps, 52 in all; warm-up of 1000 steps"));
  EXPECT_THAT(none.out, Not(HasSubstr("chosen")));
}

}  // namespace
}  // namespace retina
