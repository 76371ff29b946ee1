#include "shared/base/signals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/log.h"
#include "shared/base/program.h"

namespace retina {
namespace {

// Installs the handlers and gets the signals; exits with the one that asked to stop, unless a
// handler ends the process.
[[noreturn]] void raise_with(const StopTerms& terms, const std::vector<int>& signals) {
  set_log_name("tool");
  install_stop_signals(terms);
  for (const int signal : signals) std::raise(signal);
  if (terms.limit_s) {
    for (;;) ::pause();
  }
  ::_exit(stop_signal());
}

TEST(StopSignalsDeathTest, EndTheProcessByTheirTerms) {
  EXPECT_EXIT(raise_with({.asked = "; it ends after this step"}, {SIGTERM}),
              testing::ExitedWithCode(SIGTERM),
              "^tool: stop requested by SIGTERM; it ends after this step\n$");
  EXPECT_EXIT(raise_with({.limit_s = 0.05, .ended = "; run it again"}, {SIGINT}),
              testing::ExitedWithCode(75), "^tool: stop requested by SIGINT; run it again\n$");
  EXPECT_EXIT(raise_with({.limit_s = 0}, {SIGUSR1}), testing::ExitedWithCode(75), "^$");
  EXPECT_EXIT(raise_with({}, {SIGINT, SIGINT}), testing::ExitedWithCode(130), "^$");
  EXPECT_EXIT(raise_with({}, {SIGHUP}), testing::ExitedWithCode(SIGHUP), "^$");
  const auto under_nohup = [] {
    std::signal(SIGHUP, SIG_IGN);
    raise_with({}, {SIGHUP});
  };
  EXPECT_EXIT(under_nohup(), testing::ExitedWithCode(0), "^$");
}

constexpr std::size_t kBytes = 1 << 16;

// A mapped file that was cut afterwards.
const volatile char* cut_file() {
  const int file = ::memfd_create("cut", 0);
  if (file < 0 || ::ftruncate(file, kBytes) != 0) throw std::runtime_error("no file");
  void* map = ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file, 0);
  if (map == MAP_FAILED || ::ftruncate(file, 0) != 0) throw std::runtime_error("no map");
  return static_cast<const volatile char*>(map);
}

TEST(BusErrorDeathTest, OfAMappedFileIsOneLineOfManyThreadsAndItsExitCode) {
  const auto body = [] {
    set_log_name("tool[3]");
    const volatile char* bytes = cut_file();
    std::vector<std::thread> threads;
    for (int i = 0; i < 16; ++i) threads.emplace_back([&] { std::_Exit(bytes[kBytes / 2]); });
    for (std::thread& thread : threads) thread.join();
    return 0;
  };
  EXPECT_EXIT(std::_Exit(run_program("tool", body)), testing::ExitedWithCode(74),
              "^tool\\[3\\]: error: reading a mapped file failed [^\n]*\n$");
}

TEST(BusErrorDeathTest, OfAnotherKindKillsAsEver) {
  const auto body = [] { return std::raise(SIGBUS); };
  EXPECT_EXIT(std::_Exit(run_program("tool", body)), testing::KilledBySignal(SIGBUS), "^$");
}

// A pause without end would hang.
TEST(Signals, EndAnythingThatWaits) {
  check_stop("nothing");
  std::stop_source stop;
  for (const bool by_signal : {true, false}) {
    std::jthread asks([&] { by_signal ? set_stop_signal(SIGTERM) : void(stop.request_stop()); });
    pause(std::chrono::hours(1000), stop.get_token());
    EXPECT_TRUE(is_stopping(stop.get_token()));
    EXPECT_THROW(check_stop("a shard", stop.get_token()), Error);
    asks.join();
    set_stop_signal(0);
  }
}

// A library jumps so to code for which it got no memory.
#ifndef __SANITIZE_ADDRESS__  // it needs memory to say what it found
TEST(BadAccessDeathTest, WithoutMemoryIsOneLineAndItsExitCode) {
  const auto body = [](rlim_t limit) {
    return [limit] {
      const struct rlimit none { .rlim_cur = limit, .rlim_max = RLIM_INFINITY };
      ::setrlimit(RLIMIT_DATA, &none);
      return *static_cast<volatile int*>(nullptr);
    };
  };
  EXPECT_EXIT(std::_Exit(run_program("tool", body(1))), testing::ExitedWithCode(69),
              "^tool: error: out of memory [^\n]*\n$");
  EXPECT_EXIT(std::_Exit(run_program("tool", body(RLIM_INFINITY))),
              testing::KilledBySignal(SIGSEGV), "^$");
}
#endif

}  // namespace
}  // namespace retina
