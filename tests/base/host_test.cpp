#include "shared/base/host.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/test_folder.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

class GroupQuota : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    const fs::path path = folder_ / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::string root() const { return folder_.path(); }

 private:
  TestFolder folder_;
};

TEST_F(GroupQuota, OfTheContainersOwnGroup) {
  write("cpu.max", "250000 100000\n");
  EXPECT_EQ(group_quota("0::/\n", root()), 2.5);
}

TEST_F(GroupQuota, IsTheSmallestOnTheWayToTheGroup) {
  write("kubepods/cpu.max", "800000 100000\n");
  write("kubepods/pod1/cpu.max", "max 100000\n");
  write("kubepods/pod1/main/cpu.max", "300000 100000\n");
  EXPECT_EQ(group_quota("0::/kubepods/pod1/main\n", root()), 3);
  EXPECT_EQ(group_quota("0::/kubepods/pod1\n", root()), 8);
}

TEST_F(GroupQuota, OfVersionOneWithOrWithoutThePath) {
  const std::string groups = "5:memory:/a\n4:cpu,cpuacct:/docker/0123\n0::/\n";
  write("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(group_quota(groups, root()), 0);
  write("cpu,cpuacct/docker/0123/cpu.cfs_quota_us", "400000\n");
  write("cpu,cpuacct/docker/0123/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(group_quota(groups, root()), 4);
  write("cpu/cpu.cfs_quota_us", "50000\n");
  write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(group_quota(groups, root()), 0.5);
}

TEST_F(GroupQuota, IsNoneWithoutALimitOrGroup) {
  write("cpu.max", "max 100000\n");
  write("memory/cpu.max", "100000 100000\n");
  EXPECT_EQ(group_quota("0::/elsewhere\n3:memory:/\n", root()), 0);
  EXPECT_EQ(group_quota("", root()), 0);
  EXPECT_EQ(group_quota("nonsense\n1:\n", root()), 0);
}

TEST(UsableCores, AreAtLeastOne) {
  EXPECT_GE(usable_cores(), 1);
}

}  // namespace
}  // namespace retina
