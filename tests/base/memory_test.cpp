#include "shared/base/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <stdexcept>
#include <vector>

#include "shared/base/cat.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

class FreeMemoryTest : public testing::Test {
 protected:
  FreeMemoryTest() {
    write("meminfo", "MemTotal: 65536 kB\nMemFree: 1 kB\nMemAvailable: 8192 kB\n");
  }

  void write(const std::string& file, const std::string& text) {
    const fs::path path = folder_ / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  FreeMemory free_in(const std::string& groups, int processes = 1) const {
    return free_memory(
        processes,
        {.groups = groups, .group_root = folder_ / "cgroup", .machine = folder_ / "meminfo"});
  }
  // Version 2.
  void limit(const std::string& group, const std::string& most, std::int64_t used) {
    write(cat("cgroup/", group, "memory.max"), most);
    write(cat("cgroup/", group, "memory.current"), cat(used));
  }

 private:
  TestFolder folder_;
};

TEST_F(FreeMemoryTest, IsThatOfTheMachineSharedByItsProcesses) {
  EXPECT_EQ(free_in("").bytes, 8 * kMiB);
  EXPECT_EQ(free_in("").limit, "this machine");
  EXPECT_EQ(free_in("0::/nowhere\n", 4).bytes, 2 * kMiB);
}

TEST_F(FreeMemoryTest, IsTheLeastOfTheGroupsOnTheWay) {
  limit("", "max", 100 * kMiB);
  limit("pods/", cat(5 * kMiB), kMiB);
  limit("pods/main/", cat(20 * kMiB), 17 * kMiB);
  EXPECT_EQ(free_in("0::/pods/main\n").bytes, 3 * kMiB);
  EXPECT_EQ(free_in("0::/pods/main\n").limit, "the control group");
  EXPECT_EQ(free_in("0::/pods\n").bytes, 4 * kMiB);
  EXPECT_EQ(free_in("0::/pods\n", 2).bytes, 2 * kMiB);
  EXPECT_EQ(free_in("0::/other\n").bytes, 8 * kMiB);
}

TEST_F(FreeMemoryTest, CountsAGroupsPageCacheAsFree) {
  limit("", cat(5 * kMiB), 5 * kMiB);
  EXPECT_EQ(free_in("0::/\n").bytes, 0);
  write("cgroup/memory.stat",
        cat("anon ", kMiB, "\nfile 9\ninactive_file ", kMiB, "\nactive_file ", 2 * kMiB, "\n"));
  EXPECT_EQ(free_in("0::/\n").bytes, 3 * kMiB);
  limit("", cat(5 * kMiB), 7 * kMiB);
  write("cgroup/memory.stat", "");
  EXPECT_EQ(free_in("0::/\n").bytes, 0) << "more than its limit";
}

TEST_F(FreeMemoryTest, KnowsVersionOne) {
  write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("cgroup/memory/memory.usage_in_bytes", "1000\n");
  write("cgroup/memory/job/memory.limit_in_bytes", cat(6 * kMiB));
  write("cgroup/memory/job/memory.usage_in_bytes", cat(5 * kMiB));
  write("cgroup/memory/job/memory.stat",
        cat("inactive_file 5\ntotal_inactive_file ", kMiB, "\ntotal_active_file ", kMiB, "\n"));
  EXPECT_EQ(free_in("9:memory:/job\n4:cpu:/job\n").bytes, 3 * kMiB);
  EXPECT_EQ(free_in("9:memory:/\n4:cpu:/job\n").bytes, 8 * kMiB);
}

// In a process of its own: a limit cannot be raised again.
TEST_F(FreeMemoryTest, EndsAtThisProcesssOwnLimits) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto code_below = [this](decltype(RLIMIT_AS) resource, const char* name) {
    struct rlimit most {};
    ::getrlimit(resource, &most);
    write("meminfo", "MemAvailable: 1099511627776 kB\n");
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

TEST(OutOfMemory, IsToldFromOtherErrors) {
  EXPECT_EQ(out_of_memory(std::bad_alloc()), "out of memory");
  EXPECT_EQ(out_of_memory(std::length_error("vector::reserve")), "out of memory");
  EXPECT_THAT(out_of_memory(std::runtime_error("CUDA out of memory. Tried to allocate 2 GiB.\nx"))
                  .value_or(""),
              HasSubstr("Tried to allocate 2 GiB"));
  EXPECT_FALSE(out_of_memory(std::runtime_error("no memory map")));
}

}  // namespace
}  // namespace retina
