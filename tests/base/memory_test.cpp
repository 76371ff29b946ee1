// Memory and cores that this process may use: control groups of both versions, and its own limits.
#include "shared/base/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "shared/base/cat.h"
#include "shared/base/host.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

class ControlGroups : public testing::Test {
 protected:
  ControlGroups() {
    write("../meminfo", "MemTotal: 65536 kB\nMemFree: 1 kB\nMemAvailable: 8192 kB\n");
  }

  // Writes a file of the groups' file system.
  void write(const std::string& file, const std::string& text) {
    const fs::path path = (root_ / file).lexically_normal();
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  // Limits a group of version 2.
  void limit(const std::string& group, const std::string& most, std::int64_t used) {
    write(cat(group, "memory.max"), most);
    write(cat(group, "memory.current"), cat(used));
  }
  FreeMemory free_in(const std::string& groups, int processes = 1) const {
    return free_memory(processes,
                       {.groups = groups, .group_root = root_, .machine = folder_ / "meminfo"});
  }
  double quota_in(const std::string& groups) const { return group_quota(groups, root_); }

 private:
  const TestFolder folder_;
  const fs::path root_ = folder_ / "cgroup";
};

TEST_F(ControlGroups, FreeMemoryIsTheLeastOnTheWayAndOfTheMachineSharedByItsProcesses) {
  EXPECT_EQ(free_in("").bytes, 8 * kMiB);
  EXPECT_EQ(free_in("").limit, "this machine");
  EXPECT_EQ(free_in("0::/nowhere\n", 4).bytes, 2 * kMiB);
  limit("", "max", 100 * kMiB);
  limit("pods/", cat(5 * kMiB), kMiB);
  limit("pods/main/", cat(20 * kMiB), 17 * kMiB);
  EXPECT_EQ(free_in("0::/pods/main\n").bytes, 3 * kMiB);
  EXPECT_EQ(free_in("0::/pods/main\n").limit, "the control group");
  EXPECT_EQ(free_in("0::/pods\n", 2).bytes, 2 * kMiB);
  EXPECT_EQ(free_in("0::/other\n").bytes, 8 * kMiB);
}

TEST_F(ControlGroups, PageCacheCountsAsFree) {
  limit("", cat(5 * kMiB), 5 * kMiB);
  EXPECT_EQ(free_in("0::/\n").bytes, 0);
  write("memory.stat",
        cat("anon ", kMiB, "\nfile 9\ninactive_file ", kMiB, "\nactive_file ", 2 * kMiB, "\n"));
  EXPECT_EQ(free_in("0::/\n").bytes, 3 * kMiB);
  limit("", cat(5 * kMiB), 9 * kMiB);
  EXPECT_EQ(free_in("0::/\n").bytes, 0) << "more than its limit";
}

TEST_F(ControlGroups, FreeMemoryIsKnownOfVersionOne) {
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("memory/memory.usage_in_bytes", "1000\n");
  write("memory/job/memory.limit_in_bytes", cat(6 * kMiB));
  write("memory/job/memory.usage_in_bytes", cat(5 * kMiB));
  write("memory/job/memory.stat",
        cat("inactive_file 5\ntotal_inactive_file ", kMiB, "\ntotal_active_file ", kMiB, "\n"));
  EXPECT_EQ(free_in("9:memory:/job\n4:cpu:/job\n").bytes, 3 * kMiB);
  EXPECT_EQ(free_in("9:memory:/\n4:cpu:/job\n").bytes, 8 * kMiB);
}

TEST_F(ControlGroups, TheQuotaIsTheSmallestOnTheWay) {
  write("cpu.max", "max 100000\n");
  write("kubepods/cpu.max", "800000 100000\n");
  write("kubepods/pod1/cpu.max", "max 100000\n");
  write("kubepods/pod1/main/cpu.max", "250000 100000\n");
  write("memory/cpu.max", "100000 100000\n");
  EXPECT_EQ(quota_in("0::/kubepods/pod1/main\n"), 2.5);
  EXPECT_EQ(quota_in("0::/kubepods/pod1\n"), 8);
  for (const char* none : {"0::/elsewhere\n3:memory:/\n", "", "nonsense\n1:\n"}) {
    EXPECT_EQ(quota_in(none), 0);
  }
  EXPECT_GE(usable_cores(), 1);
}

TEST(Host, AllowsTheCoresOfTheAffinityAlone) {
  const auto cores = allowed_cores();
  EXPECT_LE(usable_cores(), std::ranges::count(cores, 1));
  std::thread([&] {
    const std::ptrdiff_t first = std::ranges::find(cores, 1) - cores.begin();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(std::ranges::count(allowed_cores(), 1), 1);
    EXPECT_EQ(allowed_cores()[static_cast<std::size_t>(first)], 1);
  }).join();
}

TEST_F(ControlGroups, TheQuotaOfVersionOneIsFoundWithOrWithoutThePath) {
  const std::string groups = "5:memory:/a\n4:cpu,cpuacct:/docker/0123\n0::/\n";
  for (const auto& [folder, quota] :
       {std::pair{"cpu,cpuacct/", -1}, {"cpu,cpuacct/docker/0123/", 400000}, {"cpu/", 50000}}) {
    write(cat(folder, "cpu.cfs_quota_us"), cat(quota));
    write(cat(folder, "cpu.cfs_period_us"), "100000\n");

    EXPECT_EQ(quota_in(groups), quota < 0 ? 0 : quota / 1e5);
  }
}

// In a process of its own: a limit cannot be raised again.
TEST_F(ControlGroups, FreeMemoryEndsAtThisProcesssOwnLimits) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto code_below = [this](decltype(RLIMIT_AS) resource, const char* name) {
    struct rlimit most {};
    ::getrlimit(resource, &most);
    write("../meminfo", "MemAvailable: 1099511627776 kB\n");
    most.rlim_cur = rlim_t{1} << 46;
    ::setrlimit(resource, &most);
    const FreeMemory before = free_in("");
    constexpr std::size_t kTaken = std::size_t{64} << 20;
    const std::vector<char> taken(kTaken);
    const FreeMemory after = free_in("");
    const bool is_right = before.limit == name && before.bytes < std::int64_t{1} << 46 &&
                          before.bytes - after.bytes >= static_cast<std::int64_t>(kTaken);
    return is_right && taken.back() == 0 ? 0 : 1;
  };
  EXPECT_EXIT(std::exit(code_below(RLIMIT_DATA, "ulimit -d")), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(std::exit(code_below(RLIMIT_AS, "ulimit -v")), testing::ExitedWithCode(0), "");
}

TEST(FreeMemoryHere, IsSomeAndResidentMemoryToo) {
  EXPECT_GT(free_memory(1).bytes, 0);
  EXPECT_GT(resident_bytes(), kMiB);
}

TEST(OutOfMemory, IsRecognised) {
  EXPECT_EQ(out_of_memory(std::bad_alloc()), "out of memory");
  EXPECT_THAT(out_of_memory(std::runtime_error("CUDA out of memory. Tried 2 GiB.\nx")).value_or(""),
              testing::HasSubstr("Tried 2 GiB"));
  EXPECT_FALSE(out_of_memory(std::runtime_error("no memory map")));
}

}  // namespace
}  // namespace retina
