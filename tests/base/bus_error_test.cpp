#include "shared/base/bus_error.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

#include "shared/base/log.h"
#include "shared/base/program.h"

namespace retina {
namespace {

constexpr std::size_t kBytes = 1 << 16;

constexpr const char* kLine =
    "^tool\\[3\\]: error: reading a mapped file failed \\(the mount is gone, a file was truncated, "
    "or /dev/shm is full\\); hint: fix that, then run the same command again\n$";

// A mapped file that was cut afterwards.
const volatile char* cut_file() {
  const int file = ::memfd_create("cut", 0);
  if (file < 0 || ::ftruncate(file, kBytes) != 0) throw std::runtime_error("no file");
  void* map = ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file, 0);
  if (map == MAP_FAILED || ::ftruncate(file, 0) != 0) throw std::runtime_error("no map");
  return static_cast<const volatile char*>(map);
}

TEST(BusErrorDeathTest, OfAMappedFileIsOneLineAndItsExitCode) {
  const auto body = [] {
    set_log_name("tool[3]");
    return static_cast<int>(cut_file()[kBytes / 2]);
  };
  EXPECT_EXIT(std::_Exit(run_program("tool", body)), testing::ExitedWithCode(74), kLine);
}

TEST(BusErrorDeathTest, IsToldOnceByManyThreads) {
  const auto body = [] {
    set_log_name("tool[3]");
    const volatile char* bytes = cut_file();
    std::vector<std::thread> threads;
    for (int i = 0; i < 16; ++i) threads.emplace_back([&] { std::_Exit(bytes[kBytes / 2]); });
    for (std::thread& thread : threads) thread.join();
    return 0;
  };
  EXPECT_EXIT(std::_Exit(run_program("tool", body)), testing::ExitedWithCode(74), kLine);
}

TEST(BusErrorDeathTest, OfAnotherKindKillsAsEver) {
  const auto body = [] { return std::raise(SIGBUS); };
  EXPECT_EXIT(std::_Exit(run_program("tool", body)), testing::KilledBySignal(SIGBUS), "^$");
}

}  // namespace
}  // namespace retina
