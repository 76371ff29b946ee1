#include <gtest/gtest.h>

#include <sstream>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

TEST(BenchEpochPlan, TellsTimePaddingAndForeignReadsOfEachPlan) {
  const TestFolder folder;
  write_file_atomically(folder / "a.json", R"({"images": [
      {"id": 1, "file_name": "a", "width": 640, "height": 480},
      {"id": 2, "file_name": "b", "width": 480, "height": 640}],
    "categories": [{"id": 1, "name": "cat"}],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "area": 9}]})");
  const ProcessResult result =
      run_process({"bench_epoch_plan", "--annotations", folder / "a.json", "--images", "1000"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::istringstream lines(result.out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const JsonFile json = JsonFile::parse(line, "line");
    const JsonView root = json.root();
    EXPECT_GE(root.at("drawn").as_int(), 1000);
    EXPECT_GE(root.at("padding").as_double(), 0);
    EXPECT_LT(root.at("padding").as_double(), 0.5);
    if (root.at("shuffle").as_string() == "sharded") {
      EXPECT_EQ(root.at("foreign_reads").as_int(), 0);
    }
  }
  EXPECT_EQ(count, 12);
}

}  // namespace
}  // namespace retina
