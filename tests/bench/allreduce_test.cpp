#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "shared/base/json.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

TEST(BenchAllreduce, PrintsOneLineOfJsonAResult) {
  const ProcessResult result =
      run_process(under_mpirun(2, {"bench_allreduce", "--max-bytes", "1KiB", "--factor", "16",
                                   "--repeats", "3", "--warm-ups", "0"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::istringstream lines(result.out);
  std::set<std::string> kinds;
  for (std::string line; std::getline(lines, line);) {
    const JsonFile json = JsonFile::parse(line, "line");
    const JsonView root = json.root();
    EXPECT_EQ(root.at("bench").as_string(), "allreduce");
    EXPECT_EQ(root.at("ranks").as_int(), 2);
    for (const char* key : {"command", "version", "revision", "mpi"}) {
      EXPECT_NE(root.at(key).as_string(), "") << key;
    }
    const double bytes = root.at("bytes").as_double();
    const double seconds = root.at("seconds_median").as_double();
    EXPECT_LE(root.at("seconds_min").as_double(), seconds);
    EXPECT_GE(root.at("seconds_max").as_double(), seconds);
    // On 2 ranks the bus carries what the algorithm does.
    EXPECT_DOUBLE_EQ(root.at("bus_bytes_per_second").as_double(), bytes / seconds);
    const std::string kind = root.at("mode").as_string() + " " + root.at("type").as_string() + " " +
                             std::to_string(root.at("bytes").as_int());
    EXPECT_TRUE(kinds.insert(kind).second) << kind;
  }
  // 2 modes, 3 types, each with 8, 128 and 1024 bytes.
  EXPECT_EQ(kinds.size(), 2U * 3 * 3);
}

TEST(BenchAllreduce, RefusesSizesThatMakeNoSense) {
  for (const std::vector<std::string>& options : {std::vector<std::string>{"--min-bytes", "4"},
                                                  {"--max-bytes", "7"},
                                                  {"--factor", "1"},
                                                  {"--repeats", "0"}}) {
    std::vector<std::string> command = {"bench_allreduce"};
    command.insert(command.end(), options.begin(), options.end());
    EXPECT_EQ(run_process(command).exit_code, 64) << options[0];
  }
}

}  // namespace
}  // namespace retina
