#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

using testing::HasSubstr;

// A line as bench_allreduce prints it, of a link with 100 µs and 50 MB/s.
std::string size_line(int ranks, double bytes, double factor = 1) {
  const double seconds = 2.0 * (ranks - 1) * 100e-6 + 2.0 * (ranks - 1) / ranks * bytes / 50e6;
  return cat(R"({"bench":"allreduce","result":"size","mode":"ring","type":"float32","ranks":)",
             ranks, R"(,"bytes":)", shortest(bytes), R"(,"seconds_median":)",
             shortest(seconds * factor), R"(,"seconds_min":)", shortest(seconds), "}\n");
}

std::vector<double> errors_of(const std::string& out, double* worst_by_ranks) {
  std::vector<double> errors;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    const JsonFile json = JsonFile::parse(line, "line");
    if (json.root().has("relative_error")) {
      errors.push_back(std::abs(json.root().at("relative_error").as_double()));
    } else {
      *worst_by_ranks = json.root().at("worst_by_other_numbers_of_ranks").as_double();
    }
  }
  return errors;
}

TEST(BenchLinkModel, PredictsExactlyWhatFollowsTheModel) {
  const TestFolder folder;
  std::string text = "not a line of JSON\n";
  for (const int ranks : {2, 3, 4}) {
    for (const double bytes : {1e5, 1e6, 1e7}) text += size_line(ranks, bytes);
  }
  write_file_atomically(folder / "m", text);
  const ProcessResult result = run_process({"bench_link_model", "--measured", folder / "m"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  double worst = 1;
  const auto errors = errors_of(result.out, &worst);
  EXPECT_EQ(errors.size(), 18U);  // each of nine by other ranks and by other sizes
  for (const double error : errors) EXPECT_LT(error, 1e-6);
  EXPECT_LT(worst, 1e-6);
}

TEST(BenchLinkModel, TellsWhatDoesNotFollowTheModel) {
  const TestFolder folder;
  std::string text;
  for (const int ranks : {2, 3, 4}) {
    for (const double bytes : {1e5, 1e6, 1e7})
      text += size_line(ranks, bytes, ranks == 4 ? 1.5 : 1);
  }
  write_file_atomically(folder / "m", text);
  const ProcessResult result = run_process({"bench_link_model", "--measured", folder / "m"});
  double worst = 0;
  errors_of(result.out, &worst);
  EXPECT_GT(worst, 0.3);
  const ProcessResult least =
      run_process({"bench_link_model", "--measured", folder / "m", "--statistic", "min"});
  errors_of(least.out, &worst);
  EXPECT_LT(worst, 1e-6);
  write_file_atomically(folder / "m", size_line(2, 1e5) + size_line(2, 1e6));
  EXPECT_EQ(run_process({"bench_link_model", "--measured", folder / "m"}).exit_code, 65);
}

TEST(BenchSleepingStep, SleepsAndSumsTheMeasuredBuckets) {
  const TestFolder folder;
  write_file_atomically(folder / "scaling.json",
                        R"({"images_per_rank":3,"runs":[{"ranks":1,"own_seconds":0.02,)"
                        R"("overlap_seconds":0.01,"bucket_bytes":[4000,8000]}]})");
  const ProcessResult result = run_process(under_mpirun(
      2, {"bench_sleeping_step", "--measured", folder / "scaling.json", "--steps", "2"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const JsonFile json = JsonFile::parse(result.out, "line");
  EXPECT_EQ(json.root().at("ranks").as_int(), 2);
  EXPECT_EQ(json.root().at("buckets").as_int(), 2);
  EXPECT_EQ(json.root().at("bytes").as_double(), 12000);
  const double seconds = json.root().at("step_seconds_median").as_double();
  EXPECT_GE(seconds, 0.02);
  EXPECT_DOUBLE_EQ(json.root().at("images_per_second").as_double(), 6 / seconds);
}

TEST(BenchSleepingStep, RefusesAFileWithoutARunOnOneRank) {
  const TestFolder folder;
  write_file_atomically(folder / "scaling.json", R"({"images_per_rank":3,"runs":[]})");
  const ProcessResult result =
      run_process({"bench_sleeping_step", "--measured", folder / "scaling.json"});
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_THAT(result.err, HasSubstr("no run on one rank"));
}

}  // namespace
}  // namespace retina
