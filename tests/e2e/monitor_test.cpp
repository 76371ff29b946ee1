// What a run tells of its time: the timeline, the metrics' books, the scaling report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <set>
#include <sstream>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/image/jpeg.h"
#include "tests/e2e/job.h"
#include "tests/support/child_process.h"
#include "tests/support/event_reader.h"

namespace retina {
namespace {

using testing::HasSubstr, testing::StartsWith;

constexpr int kRanks = 2;
constexpr int kSteps = 4;
constexpr double kRounding_us = 0.01;  // times are printed in µs, taken in ns

// A speed test of a ResNet-18 on small synthetic images: 8 of them, 4 a step, so two epochs.
std::vector<std::string> speed_test(const std::string& images_per_step,
                                    const std::vector<std::string>& more) {
  std::vector<std::string> command = {"retina-train",
                                      "--synthetic",
                                      "8",
                                      "--images-per-step",
                                      images_per_step,
                                      "--steps",
                                      "4",
                                      "--backbone",
                                      "resnet18",
                                      "--min-side",
                                      "64",
                                      "--max-side",
                                      "96",
                                      "--threads",
                                      "1",
                                      "--compute-threads",
                                      "1"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

struct TraceEvent {
  std::string name;
  int rank = 0, thread = 0;
  std::int64_t step = 0;
  double begin_us = 0, end_us = 0;
  double bytes = -1;
  double length_ms() const { return (end_us - begin_us) * 1e-3; }
};

struct Trace {
  std::vector<TraceEvent> events;
  std::set<std::string> processes, rows;
};

Trace read_trace(const std::string& path) {
  const JsonFile json = JsonFile::read(path);
  const JsonView list = json.root().at("traceEvents");
  Trace trace;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonView event = list.at(i);
    const std::string kind = event.at("ph").as_string(), name = event.at("name").as_string();
    if (kind == "M" && name == "process_name") {
      trace.processes.insert(event.at("args").at("name").as_string());
    }
    if (kind == "M" && name == "thread_name") {
      trace.rows.insert(event.at("args").at("name").as_string());
    }
    if (kind != "X") continue;
    const JsonView args = event.at("args");
    const double begin = event.at("ts").as_double();
    trace.events.push_back({.name = name,
                            .rank = static_cast<int>(event.at("pid").as_int()),
                            .thread = static_cast<int>(event.at("tid").as_int()),
                            .step = args.at("step").as_int(),
                            .begin_us = begin,
                            .end_us = begin + event.at("dur").as_double(),
                            .bytes = args.has("bytes") ? args.at("bytes").as_double() : -1});
  }
  return trace;
}

// In each row an event lies inside another or beside it.
void expect_nested(const Trace& trace) {
  std::map<std::pair<int, int>, std::vector<TraceEvent>> rows;
  for (const TraceEvent& event : trace.events) rows[{event.rank, event.thread}].push_back(event);
  for (auto& [row, events] : rows) {
    std::stable_sort(events.begin(), events.end(), [](const auto& a, const auto& b) {
      return a.begin_us != b.begin_us ? a.begin_us < b.begin_us : a.end_us > b.end_us;
    });
    std::vector<TraceEvent> around;
    for (const TraceEvent& event : events) {
      while (!around.empty() && around.back().end_us <= event.begin_us + kRounding_us) {
        around.pop_back();
      }
      if (!around.empty()) {
        EXPECT_LE(event.end_us, around.back().end_us + kRounding_us)
            << event.name << " of step " << event.step << " leaves " << around.back().name;
      }
      around.push_back(event);
    }
  }
}

// The sum of a rank's events of that name in a step, in ms.
double length_ms(const Trace& trace, const std::string& name, int rank, std::int64_t step) {
  double sum = 0;
  for (const TraceEvent& event : trace.events) {
    const bool meant = event.name.rfind(name, 0) == 0 && event.rank == rank && event.step == step;
    if (meant) sum += event.length_ms();
  }
  return sum;
}

// What one training on two ranks left.
struct Told {
  Trace trace;
  std::vector<std::string> metrics = {};  // lines

  double metric(std::int64_t step, const char* name) const {
    for (const std::string& line : metrics) {
      const JsonFile json = JsonFile::parse(line, "metrics.jsonl");
      if (json.root().has("loss") && json.root().at("step").as_int() == step) {
        return json.root().at(name).as_double();
      }
    }
    ADD_FAILURE() << "no step " << step;
    return 0;
  }
};

void expect_every_rank_and_phase(const Trace& trace) {
  EXPECT_EQ(trace.processes.size(), 2U);
  EXPECT_EQ(trace.rows, (std::set<std::string>{"main", "communication"}));
  for (int rank = 0; rank < kRanks; ++rank) {
    for (std::int64_t step = 1; step <= kSteps; ++step) {
      // A wait for data may be too short to be drawn.
      for (const char* name : {"step", "forward", "backward", "reduce", "update"}) {
        EXPECT_GT(length_ms(trace, name, rank, step), 0) << name << " " << rank << " " << step;
      }
    }
  }
  EXPECT_GT(length_ms(trace, "checkpoint.write", 0, 2), 0);
  EXPECT_GT(length_ms(trace, "metrics.write", 0, 2), 0);
}

void expect_buckets_travel_during_backward(const Trace& trace) {
  std::map<int, int> overlaps;
  for (const TraceEvent& bucket : trace.events) {
    if (bucket.name.rfind("bucket ", 0) != 0) continue;
    EXPECT_EQ(bucket.thread, 1);
    EXPECT_GT(bucket.bytes, 0);
    for (const TraceEvent& backward : trace.events) {
      if (backward.name == "backward" && backward.rank == bucket.rank &&
          backward.step == bucket.step && bucket.begin_us < backward.end_us) {
        ++overlaps[bucket.rank];
      }
    }
  }
  EXPECT_GE(overlaps[0], 1);
  EXPECT_GE(overlaps[1], 1);
}

// What the metrics call waiting for sums is what the main thread did not spend on anything else,
// and the time of the communication is that of the buckets.
void expect_exposed_is_what_the_main_thread_waits(const Told& told) {
  const Trace& trace = told.trace;
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    double others_ms = 0;
    for (const char* name : {"data.wait", "forward", "backward"}) {
      others_ms += length_ms(trace, name, 0, step);
    }
    const double exposed_ms = told.metric(step, "exposed_comm_ms");
    EXPECT_GE(exposed_ms, length_ms(trace, "reduce", 0, step) - 0.01) << step;
    EXPECT_LE(exposed_ms, told.metric(step, "step_ms") - others_ms) << step;
    EXPECT_LE(told.metric(step, "comm_ms"), length_ms(trace, "bucket", 0, step)) << step;
    double bytes = 0;
    for (const TraceEvent& event : trace.events) {
      const bool is_own = event.rank == 0 && event.step == step;
      if (is_own && event.name.rfind("bucket ", 0) == 0) bytes += event.bytes;
    }
    EXPECT_EQ(told.metric(step, "comm_bytes"), bytes);
    const double algorithm = bytes / (told.metric(step, "comm_ms") * 1e-3);
    EXPECT_NEAR(told.metric(step, "algorithm_bytes_per_second") / algorithm, 1, 1e-9);
    // On 2 ranks the bus carries what the algorithm does.
    EXPECT_NEAR(told.metric(step, "bus_bytes_per_second") / algorithm, 1, 1e-9);
    EXPECT_NEAR(told.metric(step, "compute_ms"),
                told.metric(step, "step_ms") - told.metric(step, "data_wait_ms") - exposed_ms,
                1e-6);
  }
}

void expect_each_epochs_length_and_ranks(const Told& told) {
  std::vector<std::int64_t> epochs;
  for (const std::string& line : told.metrics) {
    const JsonFile json = JsonFile::parse(line, "metrics.jsonl");
    const JsonView root = json.root();
    if (!root.has("epoch_seconds")) continue;
    epochs.push_back(root.at("epoch").as_int());
    EXPECT_EQ(root.at("images_per_epoch").as_int(), 8);
    EXPECT_EQ(root.at("steps").as_int(), 2);
    double seconds = 0;
    for (std::int64_t step = 2 * epochs.back() - 1; step <= 2 * epochs.back(); ++step) {
      seconds += told.metric(step, "step_ms") * 1e-3;
    }
    EXPECT_NEAR(root.at("epoch_seconds").as_double(), seconds, 1e-9);
    ASSERT_EQ(root.at("rank_times").size(), 2U);
    EXPECT_EQ(root.at("rank_times").at(1).at("rank").as_int(), 1);
    EXPECT_EQ(root.at("rank_times").at(1).at("images").as_double(), 2);
    EXPECT_GT(root.at("rank_times").at(1).at("compute_ms").as_double(), 0);
  }
  EXPECT_EQ(epochs, (std::vector<std::int64_t>{1, 2}));
}

TEST(Monitor, TellsWhereTheTimeOfTwoRanksGoes) {
  const TestFolder folder;
  const std::string run = folder / "run", trace = folder / "trace.json";
  const ProcessResult result = run_process(
      under_mpirun(kRanks, speed_test("4", {"--output", run, "--timeline", trace, "--tensorboard",
                                            folder / "events", "--checkpoint-every", "2steps"})));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  Told told{.trace = read_trace(trace)};
  std::istringstream lines(read_file(run + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) told.metrics.push_back(line);
  expect_every_rank_and_phase(told.trace);
  expect_nested(told.trace);
  expect_buckets_travel_during_backward(told.trace);
  expect_exposed_is_what_the_main_thread_waits(told);
  expect_each_epochs_length_and_ranks(told);
  EXPECT_EQ(event_files(folder / "events").size(), 1U);  // rank 0's
  EXPECT_NE(read_file(run + "/report.html").find("\"title\":\"Where the ranks"), std::string::npos);
}

// Every figure of the log is shown once, as its nearest f32, and nothing else.
void expect_shows_the_log(const std::string& events, const std::string& run) {
  auto shown = shown_scalars(events);
  std::istringstream lines(read_file(run + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const JsonFile json = JsonFile::parse(line, "metrics.jsonl");
    const std::int64_t step = json.root().at("step").as_int();
    const bool is_validation = json.root().has("validation");
    if (!is_validation && !json.root().has("loss")) continue;  // an epoch's
    for (auto& [tag, steps] : shown) {
      const std::size_t slash = tag.find('/');
      if ((tag.substr(0, slash) == "validation") != is_validation) continue;
      const std::string key = tag == "train/learning_rate" ? "lr" : tag.substr(slash + 1);
      ASSERT_TRUE(steps.contains(step)) << tag << " " << step;
      if (is_validation && !json.root().at("validation").has(key.c_str())) {
        EXPECT_THAT(key, HasSubstr("AR"));  // among the log's "stats"
      } else {
        const JsonView values = is_validation ? json.root().at("validation") : json.root();
        EXPECT_EQ(steps.at(step), static_cast<float>(values.at(key.c_str()).as_double())) << tag;
      }
      steps.erase(step);
    }
  }
  EXPECT_EQ(shown.size(), 28U + 12U + 3U);
  for (const auto& [tag, steps] : shown) EXPECT_TRUE(steps.empty()) << tag;
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
  expect_shows_the_log(events, run);
  // The last validation's images.
  std::int64_t shown_step = 0;
  std::set<std::string> images;
  for (const ReadEvent& event : read_events(files[1])) {
    for (const auto& [tag, shown] : event.images) {
      Image image;
      EXPECT_TRUE(JpegDecoder().decode(shown.jpeg, image).ok) << tag;
      EXPECT_EQ(image.width, shown.width);
      EXPECT_EQ(image.height, shown.height);
      if (event.step != shown_step) images.clear();
      shown_step = event.step;
      images.insert(tag);
    }
  }
  EXPECT_EQ(shown_step, steps);
  EXPECT_FALSE(images.empty());
  // It decides nothing of the result: the finished run is found with another one, and none.
  for (const std::vector<std::string>& other :
       {std::vector<std::string>{}, std::vector<std::string>{"--tensorboard", job / "other"}}) {
    auto again =
        job.train_command(run, steps, {"--validation", job.val_shards(), "--steps-per-epoch", "3"});
    again.insert(again.end(), other.begin(), other.end());
    const ProcessResult found = run_process(again);
    EXPECT_EQ(found.exit_code, 0) << found.err;
    EXPECT_THAT(found.out, HasSubstr("already finished"));
    EXPECT_FALSE(path_exists(job / "other"));
  }
}

// One rank alone, stopped long before its window ends.
TEST(TimelineOfAStoppedRun, HasTheStepsSoFar) {
  const TestFolder folder;
  auto command = speed_test("1", {"--output", folder / "run", "--timeline",
                                  cat(folder / "trace.json", ",steps=2:100000")});
  set_value(command, "--steps", "100000");
  ChildProcess child(command);
  ASSERT_TRUE(child.run_until([&] { return steps_logged(folder / "run") >= 3; }, 120));
  EXPECT_FALSE(path_exists(folder / "trace.json"));
  child.signal(SIGTERM);
  EXPECT_EQ(child.wait().exit_code, 75);
  const Trace trace = read_trace(folder / "trace.json");
  EXPECT_EQ(length_ms(trace, "forward", 0, 1), 0);
  EXPECT_GT(length_ms(trace, "forward", 0, 2), 0);
  EXPECT_GT(length_ms(trace, "forward", 0, 3), 0);
  expect_nested(trace);
}

TEST(ScalingReportRuns, OnOneAndTwoRanksMakeOneReport) {
  const TestFolder folder;
  const std::vector<std::string> more = {"--scaling-report", folder / "scaling"};
  const ProcessResult one = run_process(speed_test("1", more));
  ASSERT_EQ(one.exit_code, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("scaling report: "));
  const ProcessResult two = run_process(under_mpirun(2, speed_test("2", more)));
  ASSERT_EQ(two.exit_code, 0) << two.err;
  const JsonFile json = JsonFile::read(folder / "scaling/scaling.json");
  EXPECT_EQ(json.root().at("runs").size(), 2U);
  EXPECT_EQ(json.root().at("runs").at(1).at("ranks").as_int(), 2);
  EXPECT_GT(json.root().at("runs").at(1).at("overlap_seconds").as_double(), 0);
  // Twice the images a rank: nothing to compare.
  const ProcessResult other = run_process(speed_test("2", more));
  EXPECT_EQ(other.exit_code, 78) << other.err;
  EXPECT_THAT(other.err, HasSubstr("images a rank (was 1, now 2)"));
}

// Its report is missing, so it is not told as finished, but no step is left.
TEST(ScalingReportRuns, KeepTheirFiguresWhenNoStepIsLeft) {
  const TestFolder folder;
  const auto command =
      speed_test("2", {"--output", folder / "run", "--scaling-report", folder / "scaling"});
  ASSERT_EQ(run_process(command).exit_code, 0);
  const std::string before = read_file(folder / "scaling/scaling.json");
  remove_file(folder / "run/report.html");
  const ProcessResult again = run_process(command);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("no steps remained"));
  EXPECT_EQ(read_file(folder / "scaling/scaling.json"), before);
}

}  // namespace
}  // namespace retina
