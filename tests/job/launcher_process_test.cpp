#include "shared/job/rank_program.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/test_folder.h"

namespace retina {
namespace {

class LauncherProcess : public ::testing::Test {
 protected:
  void add(int pid, const std::string& name, int parent) const {
    const std::filesystem::path folder = std::filesystem::path(proc()) / std::to_string(pid);
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "stat") << pid << " (" << name << ") S " << parent << " 1 1 0 -1";
  }
  std::string proc() const { return folder_.path(); }
  const int own_ = ::getpid();

 private:
  const TestFolder folder_;
};

TEST_F(LauncherProcess, IsFoundBehindAScript) {
  add(own_, "retina-train", 3000001);
  add(3000001, "run (1).sh)", 3000002);
  add(3000002, "mpirun", 3000003);
  add(3000003, "mpirun", 1);  // of another job around this one
  EXPECT_EQ(launcher_process(proc()), 3000002);
}

TEST_F(LauncherProcess, IsNothingWithoutOne) {
  add(own_, "retina-train", 3000001);
  add(3000001, "bash", 1);
  add(1, "mpirun", 0);  // a container's first process is nobody's to end
  EXPECT_EQ(launcher_process(proc()), 0);
}

TEST_F(LauncherProcess, IsNothingWhereTheLineageCannotBeRead) {
  add(own_, "retina-train", 3000001);
  EXPECT_EQ(launcher_process(proc()), 0);
}

}  // namespace
}  // namespace retina
