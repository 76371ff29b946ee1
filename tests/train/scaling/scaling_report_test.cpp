#include "train/scaling/scaling_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "tests/support/ranks/thread_world.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;
using testing::Not;

// 0.5 s of its own a step and 2 images a rank.
ScalingRun run_on(int ranks, double exposed_seconds) {
  const double step_seconds = 0.5 + exposed_seconds;
  return {.ranks = ranks,
          .step_count = 10,
          .images_per_second = 2 * ranks / step_seconds,
          .step_seconds = step_seconds,
          .own_seconds = 0.5,
          .comm_seconds = exposed_seconds,
          .bucket_bytes = {1e6, 5e5}};
}

ScalingData empty_data() {
  return {.setup = {{"model", "small"}, {"images a rank", "2"}},
          .images_per_rank = 2,
          .images_per_epoch = 1000};
}

// Adds a run on that many ranks to the folder's report.
void add_run(const std::string& folder, int ranks) {
  ThreadWorld world({.ring = {.ranks = ranks}});
  const auto outcomes = world.run([&](ThreadRank& comm) {
    ScalingReport(folder, empty_data(), comm).add(run_on(ranks, (ranks - 1) * 0.125), comm);
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.message, "");
}

TEST(ScalingReport, CollectsRunsOnSeveralNumbersOfRanks) {
  const TestFolder folder;
  for (const int ranks : {4, 1, 2, 4}) add_run(folder / "s", ranks);
  const std::string path = folder / "s/scaling.json";
  const ScalingData data = scaling_from_json(read_file(path), path);
  ASSERT_EQ(data.runs.size(), 3U);
  EXPECT_EQ(data.runs[0].ranks, 1);
  EXPECT_EQ(data.runs[2].ranks, 4);
  EXPECT_EQ(data.runs[2].nodes, 1);
  EXPECT_EQ(data.runs[2].bucket_bytes, (std::vector<double>{1e6, 5e5}));
  const JsonFile json = JsonFile::read(path);
  const JsonView runs = json.root().at("runs");
  EXPECT_EQ(runs.at(std::size_t{0}).at("efficiency").as_double(), 1);
  // By hand: 0.5 s of 0.625 on 2 ranks, and 1000 images at 4 in 0.625 s.
  EXPECT_DOUBLE_EQ(runs.at(std::size_t{1}).at("efficiency").as_double(), 0.8);
  EXPECT_DOUBLE_EQ(runs.at(std::size_t{1}).at("epoch_seconds").as_double(), 1000 / (4 / 0.625));
  EXPECT_EQ(scaling_json(data), read_file(path));
}

TEST(ScalingReport, ShowsWhatWasMeasuredBesidePerfectScaling) {
  const TestFolder folder;
  for (const int ranks : {1, 2}) add_run(folder / "s", ranks);
  const std::string page = read_file(folder / "s/scaling.html");
  EXPECT_THAT(page, HasSubstr("80.0 %"));
  EXPECT_THAT(page, HasSubstr("perfect"));
  EXPECT_THAT(page, Not(HasSubstr("own time grows")));
}

TEST(ScalingReport, OfOneNumberOfRanksSaysHowToAddOthers) {
  const TestFolder folder;
  add_run(folder / "s", 1);
  EXPECT_THAT(read_file(folder / "s/scaling.html"), HasSubstr("run the same command under mpirun"));
}

// Two ranks that share the cores.
TEST(ScalingReport, SaysWhenRanksShareMoreThanTheNetwork) {
  const TestFolder folder;
  for (const int ranks : {1, 2}) add_run(folder / "s", ranks);
  const std::string path = folder / "s/scaling.json";
  ScalingData data = scaling_from_json(read_file(path), path);
  data.runs[1].own_seconds = 0.78;
  EXPECT_THAT(scaling_html(data),
              HasSubstr("own time grows from 500.0 ms with 1 rank to 780.0 ms with 2"));
}

TEST(ScalingReport, KeepsWhatItHasWhenARunHadNoStep) {
  const TestFolder folder;
  add_run(folder / "s", 1);
  const std::string before = read_file(folder / "s/scaling.json");
  const auto comm = make_self_communicator();
  EXPECT_FALSE(ScalingReport(folder / "s", empty_data(), *comm).add({}, *comm));
  EXPECT_EQ(read_file(folder / "s/scaling.json"), before);
}

TEST(ScalingReport, ReplacesItsOwnFilesAlone) {
  const auto comm = make_self_communicator();
  for (const char* name : {"scaling.json", "scaling.html"}) {
    const TestFolder folder;
    add_run(folder / "s", 1);
    EXPECT_NO_THROW(ScalingReport(folder / "s", empty_data(), *comm)) << name;
    write_file_atomically(folder / "s/" + name, "{\"mine\": 1}");
    EXPECT_THAT(refusal_of(ErrorKind::kCannotCreate,
                           [&] { ScalingReport(folder / "s", empty_data(), *comm); }),
                HasSubstr(cat(name, ": exists and is not ours to replace")));
    EXPECT_EQ(read_file(folder / "s/" + name), "{\"mine\": 1}");
  }
}

TEST(ScalingReport, RefusesRunsThatCannotBeCompared) {
  const TestFolder folder;
  add_run(folder / "s", 1);
  const auto comm = make_self_communicator();
  ScalingData other = empty_data();
  other.setup["images a rank"] = "4";
  try {
    ScalingReport(folder / "s", other, *comm);
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    EXPECT_THAT(error.what(), HasSubstr("images a rank (was 2, now 4)"));
  }
  write_file_atomically(folder / "s/scaling.json", "{}");
  EXPECT_THROW(ScalingReport(folder / "s", empty_data(), *comm), Error);
  EXPECT_THROW(ScalingReport("/proc/nowhere", empty_data(), *comm), Error);
}

}  // namespace
}  // namespace retina
