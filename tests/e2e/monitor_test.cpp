// Metrics of a run: the log's arithmetic, and TensorBoard's events.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <set>
#include <sstream>
#include <utility>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/image/jpeg.h"
#include "tests/e2e/job.h"
#include "tests/support/child_process.h"
#include "tests/support/event_reader.h"

namespace retina {
namespace {

using testing::HasSubstr;

// Times of a step of two ranks, and the epoch's sums of them.
TEST(Metrics, OfTwoRanksAddUp) {
  const TestFolder folder;
  const std::string run = folder / "run";
  const ProcessResult result = run_on(
      2,
      joined({"retina-train", "--output", run, "--tensorboard", folder / "events"},
             words("--synthetic 8 --images-per-step 4 --steps 4 --backbone resnet18 --min-side 64 "
                   "--max-side 96 --threads 1 --compute-threads 1")));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::istringstream lines(read_file(run + "/metrics.jsonl"));
  double seconds = 0;
  std::vector<std::int64_t> epochs;
  for (std::string line; std::getline(lines, line);) {
    const JsonFile json = JsonFile::parse(line, "metrics.jsonl");
    const JsonView root = json.root();
    const auto number = [&](const char* key) { return root.at(key).as_double(); };
    if (root.has("loss")) {
      seconds += number("step_ms") * 1e-3;
      EXPECT_GT(number("exposed_comm_ms"), 0);
      EXPECT_GT(number("overlap_ms"), 0);
      EXPECT_NEAR(number("compute_ms"),
                  number("step_ms") - number("data_wait_ms") - number("exposed_comm_ms"), 1e-6);
      const double bandwidth = number("comm_bytes") / (number("comm_ms") * 1e-3);
      EXPECT_NEAR(number("algorithm_bytes_per_second") / bandwidth, 1, 1e-9);
      // On 2 ranks the bus carries as much as the algorithm.
      EXPECT_NEAR(number("bus_bytes_per_second") / bandwidth, 1, 1e-9);
    } else if (root.has("epoch_seconds")) {
      epochs.push_back(root.at("epoch").as_int());
      EXPECT_NEAR(number("epoch_seconds"), std::exchange(seconds, 0), 1e-9);
      EXPECT_EQ(root.at("images_per_epoch").as_int(), 8);
      EXPECT_EQ(root.at("steps").as_int(), 2);
      ASSERT_EQ(root.at("rank_times").size(), 2U);
      const JsonView second = root.at("rank_times").at(1);
      EXPECT_EQ(second.at("rank").as_int(), 1);
      EXPECT_EQ(second.at("images").as_double(), 2);
      EXPECT_GT(second.at("compute_ms").as_double(), 0);
    }
  }
  EXPECT_EQ(epochs, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(event_files(folder / "events").size(), 1U);  // rank 0's
  EXPECT_THAT(read_file(run + "/report.html"), HasSubstr("\"title\":\"Where the ranks"));
}

TEST(TensorBoardEvents, ShowTheLogOfARunThatWasKilled) {
  const Job job;
  const std::string run = job / "run", events = job / "events";
  const std::vector<std::string> more = {
      "--tensorboard",     events, "--validation",       job.val_shards(),
      "--steps-per-epoch", "3",    "--checkpoint-every", "3steps"};
  ChildProcess child(job.train_command(run, 100000, more));
  ASSERT_TRUE(child.run_until([&] { return steps_logged(run) >= 5; }, 120));
  child.signal_group(SIGKILL);
  child.wait();
  const auto steps = static_cast<int>(steps_logged(run)) + 2;
  const auto command = job.train_command(run, steps, more);
  const ProcessResult finished = run_process(command);
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_EQ(steps_logged(run), steps);
  const std::vector<std::string> files = event_files(events);
  ASSERT_EQ(files.size(), 2U);
  // Each step and validation is shown once, as the log has it.
  const auto shown = shown_scalars(events);
  EXPECT_EQ(shown.size(), 28U + 12U + 3U);
  EXPECT_EQ(shown.at("train/loss").size(), static_cast<std::size_t>(steps));
  for (const JsonFile& line : metric_lines(run, "step_ms")) {
    EXPECT_EQ(shown.at("train/loss").at(line.root().at("step").as_int()),
              static_cast<float>(line.root().at("loss").as_double()));
  }
  for (const JsonFile& line : metric_lines(run, "validation")) {
    EXPECT_EQ(shown.at("validation/AP").at(line.root().at("step").as_int()),
              static_cast<float>(line.root().at("validation").at("AP").as_double()));
  }
  // The last validation's images.
  std::int64_t shown_step = 0;
  std::set<std::string> images;
  for (const ReadEvent& event : read_events(files[1])) {
    for (const auto& [tag, image_file] : event.images) {
      Image image;
      EXPECT_TRUE(JpegDecoder().decode(image_file.jpeg, image).ok) << tag;
      EXPECT_EQ(image.width, image_file.width);
      EXPECT_EQ(image.height, image_file.height);
      if (event.step != shown_step) images.clear();
      shown_step = event.step;
      images.insert(tag);
    }
  }
  EXPECT_EQ(shown_step, steps);
  EXPECT_FALSE(images.empty());
  // The option decides nothing of the result.
  const ProcessResult plain = run_process(
      job.train_command(run, steps, {"--validation", job.val_shards(), "--steps-per-epoch", "3"}));
  EXPECT_THAT(plain.out, HasSubstr("already finished")) << plain.err;
}

}  // namespace
}  // namespace retina
