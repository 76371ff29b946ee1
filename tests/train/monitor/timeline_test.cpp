#include "train/monitor/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/output.h"
#include "tests/support/ranks/thread_world.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using std::chrono::microseconds;

constexpr Timeline::Clock::time_point at(std::int64_t us) {
  return Timeline::Clock::time_point(microseconds(us));
}

struct SeenEvent {
  std::string name;
  int thread = 0;
  std::int64_t step = 0;
  double begin_us = 0, end_us = 0;
};

// The events "X" of a fragment.
std::vector<SeenEvent> events_of(std::string text) {
  text.resize(text.size() - 2);  // ",\n"
  const JsonFile json = JsonFile::parse("[" + text + "]", "events");
  std::vector<SeenEvent> events;
  for (std::size_t i = 0; i < json.root().size(); ++i) {
    const JsonView event = json.root().at(i);
    if (event.at("ph").as_string() != "X") continue;
    const double begin = event.at("ts").as_double();
    events.push_back({event.at("name").as_string(), static_cast<int>(event.at("tid").as_int()),
                      event.at("args").at("step").as_int(), begin,
                      begin + event.at("dur").as_double()});
  }
  return events;
}

const SeenEvent& event_named(const std::vector<SeenEvent>& events, const std::string& name) {
  for (const SeenEvent& event : events) {
    if (event.name == name) return event;
  }
  ADD_FAILURE() << "no event " << name;
  static const SeenEvent none;
  return none;
}

// A step from `begin`: 10 µs of data, 20 forward, 30 backward, in which a bucket leaves on another
// thread, 15 of reduce with a collective of 4, 5 of update.
void play_step(Timeline& timeline, std::int64_t step, std::int64_t begin) {
  Operation bucket{.kind = CollectiveKind::kAllReduce, .type = ElementType::kFloat32, .count = 10};
  bucket.set_label("bucket 0");
  timeline.on_step(step, at(begin));
  timeline.on_phase(Phase::kDataWait, at(begin));
  timeline.on_phase(Phase::kStart, at(begin + 10));
  timeline.on_phase(Phase::kForward, at(begin + 10));
  timeline.on_phase(Phase::kBackward, at(begin + 30));
  std::thread([&] {
    timeline.on_collective_begin(bucket, at(begin + 50));
    timeline.on_collective_end(at(begin + 65));
  }).join();
  timeline.on_phase(Phase::kForward, at(begin + 60));  // the scope around shows for a moment
  timeline.on_phase(Phase::kReduce, at(begin + 60));
  timeline.on_collective_begin({.kind = CollectiveKind::kAllReduce}, at(begin + 66));
  timeline.on_collective_end(at(begin + 70));
  timeline.on_phase(Phase::kUpdate, at(begin + 75));
  timeline.on_phase(Phase::kStart, at(begin + 80));
}

TEST(Timeline, HasEachPhaseInsideItsStepAndBucketsOnTheirOwnRow) {
  Timeline timeline({.first = 1, .last = 1});
  play_step(timeline, 7, 1000);
  EXPECT_TRUE(timeline.is_over());
  const auto events = events_of(timeline.finish(3, "node-a", at(900)));
  ASSERT_EQ(events.size(), 8U);
  const SeenEvent& step = event_named(events, "step 7");
  EXPECT_EQ(step.begin_us, 100);
  EXPECT_EQ(step.end_us, 180);
  EXPECT_EQ(event_named(events, "data.wait").end_us, 110);
  EXPECT_EQ(event_named(events, "forward").begin_us, 110);
  EXPECT_EQ(event_named(events, "forward").end_us, 130);
  EXPECT_EQ(event_named(events, "backward").end_us, 160);
  EXPECT_EQ(event_named(events, "reduce").end_us, 175);
  EXPECT_EQ(event_named(events, "update").end_us, 180);
  EXPECT_EQ(event_named(events, "all_reduce").thread, 0);
  const SeenEvent& bucket = event_named(events, "bucket 0");
  EXPECT_EQ(bucket.thread, 1);
  EXPECT_EQ(bucket.step, 7);
  EXPECT_EQ(bucket.begin_us, 150);
  EXPECT_EQ(bucket.end_us, 165);
}

TEST(Timeline, KeepsTheStepsOfItsWindowAndWhatFollowsTheLast) {
  Timeline timeline({.first = 2, .last = 3});
  for (std::int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(timeline.is_over(), i >= 3) << i;
    play_step(timeline, 101 + i, 1000 * i);
    if (i != 2) continue;
    timeline.on_phase(Phase::kCheckpointWrite, at(2500));
    timeline.on_phase(Phase::kStart, at(2600));
  }
  const auto events = events_of(timeline.finish(0, "a", at(0)));
  std::set<std::int64_t> steps;
  for (const SeenEvent& event : events) steps.insert(event.step);
  EXPECT_EQ(steps, (std::set<std::int64_t>{102, 103}));
  EXPECT_EQ(event_named(events, "checkpoint.write").end_us, 2600);
  EXPECT_EQ(event_named(events, "step 103").end_us, 2080);
}

TEST(Timeline, IsBoundedAndCountsWhatItLeavesOut) {
  Timeline timeline({.first = 1, .last = 1000}, 20);
  for (std::int64_t i = 0; i < 10; ++i) play_step(timeline, i + 1, 1000 * i);
  EXPECT_EQ(events_of(timeline.finish(0, "a", at(0))).size(), 20U);
  EXPECT_EQ(timeline.skipped_count(), 10 * 8 - 20);
}

TEST(Timeline, WindowIsFromOneToAnother) {
  const StepWindow window = parse_step_window("timeline steps", "3:17");
  EXPECT_EQ(window.first, 3);
  EXPECT_EQ(window.last, 17);
  for (const char* bad : {"", "3", ":", "3:", ":3", "0:3", "4:3", "1:2:3", "a:b", "1:2 ", "-1:3"}) {
    EXPECT_THROW(parse_step_window("timeline steps", bad), Error) << bad;
  }
}

// Every rank's steps are in the file, and it is whole only at the end.
TEST(TimelineFile, GathersAllRanksIntoOneFile) {
  const TestFolder folder;
  const std::string path = folder / "trace.json";
  ThreadWorld world({.ring = {.ranks = 3}});
  std::vector<std::thread> ranks;
  for (int r = 0; r < 3; ++r) {
    // Taken here: the world is this thread's.
    ranks.emplace_back([&path, r, own = world.take(r)]() mutable {
      Activity activity(r);
      const auto comm = std::move(own);
      comm->report_to(activity);
      TimelineFile file(path, {.first = 1, .last = 2}, *comm);
      for (std::int64_t step = 1; step <= 4; ++step) {
        comm->activity()->set_step(step);
        {
          const PhaseScope phase(comm->activity(), Phase::kReduce);
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          comm->barrier();
        }
        EXPECT_FALSE(comm->is_root() && step < 2 && path_exists(path));
        file.after_step();
        EXPECT_FALSE(comm->is_root() && step >= 2 && !path_exists(path));
      }
      file.finish();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_NO_THROW(check_may_replace(path, kTimelineMark, "--timeline")) << "not known as ours";
  const JsonFile json = JsonFile::read(path);
  const JsonView root = json.root();
  EXPECT_EQ(root.at("otherData").at("ranks").as_int(), 3);
  EXPECT_EQ(root.at("otherData").at("events_left_out").as_int(), 0);
  std::set<std::string> steps, processes;
  for (std::size_t i = 0; i < root.at("traceEvents").size(); ++i) {
    const JsonView event = root.at("traceEvents").at(i);
    const std::string name = event.at("name").as_string();
    if (name == "process_name")
      processes.insert(event.at("args").at("name").as_string().substr(0, 6));
    if (name.starts_with("step")) steps.insert(cat(event.at("pid").as_int(), " ", name));
  }
  EXPECT_EQ(processes, (std::set<std::string>{"rank 0", "rank 1", "rank 2"}));
  EXPECT_EQ(steps, (std::set<std::string>{"0 step 1", "0 step 2", "1 step 1", "1 step 2",
                                          "2 step 1", "2 step 2"}));
}

// A run that is stopped early writes what it has.
TEST(TimelineFile, IsWrittenAtAnEarlyEnd) {
  const TestFolder folder;
  Activity activity(0);
  const auto comm = make_self_communicator();
  comm->report_to(activity);
  {
    TimelineFile file(folder / "trace.json", {}, *comm);
    comm->activity()->set_step(1);
    file.after_step();
    EXPECT_FALSE(path_exists(folder / "trace.json"));
    file.finish();
  }
  EXPECT_NO_THROW(JsonFile::read(folder / "trace.json"));
  comm->activity()->set_step(2);  // nobody listens any more
}

TEST(TimelineFile, RefusesAPathThatCannotBeMadeAtTheStart) {
  Activity activity(0);
  const auto comm = make_self_communicator();
  comm->report_to(activity);
  EXPECT_THROW(TimelineFile("/proc/nowhere/trace.json", {}, *comm), Error);
}

}  // namespace
}  // namespace retina
