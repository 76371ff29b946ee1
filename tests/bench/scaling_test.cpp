#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

using testing::HasSubstr;

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
