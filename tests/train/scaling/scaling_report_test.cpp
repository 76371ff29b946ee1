#include "train/scaling/scaling_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

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

// 0.5 s of its own a step and 2 images a rank; sums cost nothing but on the links of a ThreadWorld.
ScalingRun run_on(int ranks, double exposed_seconds) {
  const double step_seconds = 0.5 + exposed_seconds;
  return {.point = {.ranks = ranks,
                    .step_seconds = step_seconds,
                    .own_seconds = 0.5,
                    .comm_seconds = exposed_seconds,
                    .bucket_bytes = {1e6, 5e5}},
          .step_count = 10,
          .images_per_second = 2 * ranks / step_seconds};
}

ScalingData empty_data() {
  return {.setup = {{"model", "small"}, {"images a rank", "2"}},
          .images_per_rank = 2,
          .images_per_epoch = 1000};
}

// Adds a run on that many ranks to the folder's report.
void add_run(const std::string& folder, int ranks) {
  const LinkCost link{.latency_seconds = 50e-6, .bytes_per_second = 100e6};
  ThreadWorld world({.ring = {.ranks = ranks, .intra_node = link}});
  const double ring_seconds =
      2 * 2 * (ranks - 1) * 50e-6 + 2.0 * (ranks - 1) / ranks * 1.5e6 / 100e6;
  const auto outcomes = world.run([&](ThreadRank& comm) {
    ScalingReport(folder, empty_data(), comm)
        .add(run_on(ranks, ranks == 1 ? 0 : ring_seconds), {}, comm);
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.message, "");
}

TEST(ScalingReport, CollectsRunsOnSeveralNumbersOfRanks) {
  const TestFolder folder;
  for (const int ranks : {4, 1, 2, 4}) add_run(folder / "s", ranks);
  const std::string path = folder / "s/scaling.json";
  const ScalingData data = scaling_from_json(read_file(path), path);
  ASSERT_EQ(data.runs.size(), 3U);
  EXPECT_EQ(data.runs[0].point.ranks, 1);
  EXPECT_TRUE(data.runs[0].point.samples.empty());
  EXPECT_EQ(data.runs[2].point.ranks, 4);
  EXPECT_EQ(data.runs[2].nodes, 1);
  EXPECT_EQ(data.runs[2].point.bucket_bytes, (std::vector<double>{1e6, 5e5}));
  const JsonFile json = JsonFile::read(path);
  EXPECT_NEAR(json.root().at("model").at("latency_seconds").as_double(), 50e-6, 1e-9);
  EXPECT_NEAR(json.root().at("model").at("bytes_per_second").as_double(), 100e6, 1e3);
  EXPECT_EQ(json.root().at("runs").at(std::size_t{0}).at("efficiency").as_double(), 1);
  // By hand: 1024 ranks, two buckets, nothing hidden, 10 hops for the losses.
  const JsonView last = json.root().at("projected").at(10);
  EXPECT_EQ(last.at("ranks").as_int(), 1024);
  const double step = 0.5 + 2 * 2 * 1023 * 50e-6 + 2.0 * 1023 / 1024 * 1.5e6 / 100e6 + 10 * 50e-6;
  EXPECT_NEAR(last.at("projected_step_seconds").as_double(), step, 1e-5);
  EXPECT_NEAR(last.at("projected_images_per_second").as_double(), 2048 / step, 0.1);
  EXPECT_NEAR(last.at("projected_epoch_seconds").as_double(), 1000 / (2048 / step), 1e-5);
  EXPECT_EQ(scaling_json(data), read_file(path));
}

// No figure for a number of ranks that nobody ran goes without the word.
TEST(ScalingReport, SaysProjectedBesideEveryProjectedNumber) {
  const TestFolder folder;
  for (const int ranks : {1, 2}) add_run(folder / "s", ranks);
  const std::string page = read_file(folder / "s/scaling.html");
  const std::size_t begin = page.find("<h3>Projected</h3>");
  ASSERT_NE(begin, std::string::npos);
  const std::string table = page.substr(begin, page.find("</table>", begin) - begin);
  const std::regex row("<tr><td>(\\d+)</td>(.*)</tr>"), cell("<td>[^<]*</td>");
  int rows = 0;
  for (std::sregex_iterator it(table.begin(), table.end(), row), end; it != end; ++it, ++rows) {
    EXPECT_EQ((*it)[1], std::to_string(1 << rows));
    const std::string cells = (*it)[2];
    int count = 0;
    for (std::sregex_iterator c(cells.begin(), cells.end(), cell); c != end; ++c, ++count) {
      EXPECT_THAT(c->str(), HasSubstr(" projected</td>"));
    }
    EXPECT_EQ(count, 4);
  }
  EXPECT_EQ(rows, 11);
  EXPECT_THAT(page, HasSubstr("2(n-1) α + 2(n-1)/n b/β"));
}

TEST(ScalingReport, OfOneRankProjectsNothing) {
  const TestFolder folder;
  add_run(folder / "s", 1);
  const std::string page = read_file(folder / "s/scaling.html");
  EXPECT_THAT(page, Not(HasSubstr("projected")));
  EXPECT_THAT(page, HasSubstr("needs a run on two ranks or more"));
}

// Two ranks that share the cores: 62 % where the network alone would leave nearly all.
TEST(ScalingReport, ProjectsNothingFromAModelThatItsRunsContradict) {
  const TestFolder folder;
  for (const int ranks : {1, 2}) add_run(folder / "s", ranks);
  const std::string path = folder / "s/scaling.json";
  ScalingData data = scaling_from_json(read_file(path), path);
  ScalingRun& two = data.runs[1];
  two.point.own_seconds = 0.78;
  two.point.step_seconds = 0.8;
  two.images_per_second = 2 * 2 / 0.8;
  const std::string page = scaling_html(data);
  EXPECT_THAT(page, Not(HasSubstr(" projected<")));
  EXPECT_THAT(page, Not(HasSubstr("1024")));
  EXPECT_THAT(page, HasSubstr("an efficiency of 62.5 % where it says"));
  EXPECT_THAT(page, HasSubstr("own time grows from 500.0 ms with 1 rank to 780.0 ms with 2"));
  const JsonFile json = JsonFile::parse(scaling_json(data), path);
  EXPECT_EQ(json.root().at("projected").size(), 0U);
  EXPECT_THAT(json.root().at("model").at("misfit").as_string(),
              HasSubstr("at 2 ranks a step takes"));
}

TEST(ScalingReport, MeasuresTheLinksAsGradientsUseThem) {
  const TestFolder folder;
  const LinkCost link{.latency_seconds = 50e-6, .bytes_per_second = 100e6};
  ThreadWorld world({.ring = {.ranks = 2, .intra_node = link}});
  const auto outcomes = world.run([&](ThreadRank& comm) {
    const std::int64_t before = comm.stats().all_reduce_ordered.bytes;
    ScalingRun run = run_on(2, 0.1);
    run.point.bucket_bytes = {4098};  // 2049 values of 16 bit
    EXPECT_TRUE(ScalingReport(folder / "s", empty_data(), comm)
                    .add(run, {.type = ElementType::kBFloat16, .ordered = true}, comm));
    EXPECT_EQ(comm.stats().all_reduce_ordered.bytes - before, 6 * (4096 + 4098));
  });
  for (const auto& outcome : outcomes) EXPECT_EQ(outcome.message, "");
}

TEST(ScalingReport, KeepsWhatItHasWhenARunHadNoStep) {
  const TestFolder folder;
  add_run(folder / "s", 1);
  const std::string before = read_file(folder / "s/scaling.json");
  const auto comm = make_self_communicator();
  EXPECT_FALSE(ScalingReport(folder / "s", empty_data(), *comm).add({}, {}, *comm));
  EXPECT_EQ(read_file(folder / "s/scaling.json"), before);
}

TEST(ScalingReport, SaysWhenTheLinksAreNotThoseOfTheGradients) {
  const TestFolder folder;
  for (const int ranks : {1, 2}) add_run(folder / "s", ranks);
  const std::string path = folder / "s/scaling.json";
  ScalingData data = scaling_from_json(read_file(path), path);
  EXPECT_FALSE(data.sums_by_nccl);
  EXPECT_THAT(scaling_html(data), Not(HasSubstr("NCCL")));
  data.sums_by_nccl = true;
  data = scaling_from_json(scaling_json(data), path);
  EXPECT_THAT(scaling_html(data), HasSubstr("of the network between hosts"));
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
