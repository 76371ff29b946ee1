#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "shared/base/json.h"
#include "tests/preprocess/small_coco.h"
#include "tests/support/child_process.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

TEST(BenchData, PrintsOneLineOfJsonACase) {
  const TestFolder folder;
  SmallCoco coco{.folder = folder.path(), .good_count = 6};
  coco.write();
  const ProcessResult packed =
      run_process({"coco-pack", "--annotations", folder / "annotations.json", "--images",
                   folder / "images", "--output", folder / "set"});
  ASSERT_EQ(packed.exit_code, 0) << packed.err;
  const ProcessResult result =
      run_process({"bench_data", "--data", folder / "set", "--rounds", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::istringstream lines(result.out);
  std::set<std::string> cases;
  for (std::string line; std::getline(lines, line);) {
    const JsonFile json = JsonFile::parse(line, "line");
    const JsonView root = json.root();
    EXPECT_EQ(root.at("images").as_int(), 6);
    const std::string name = root.at("case").as_string();
    cases.insert(name);
    EXPECT_GT(root.at("images_per_second").as_double(), 0) << name;
    EXPECT_GT(root.at("images_per_core_second").as_double(), 0) << name;
  }
  EXPECT_EQ(cases.size(), 9U);
}

}  // namespace
}  // namespace retina
