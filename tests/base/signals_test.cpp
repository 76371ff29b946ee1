#include "shared/base/signals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/log.h"
#include "shared/base/program.h"

namespace retina {
namespace {

using testing::HasSubstr;

// What a process that runs `body` ends with, and writes to its log.
struct Ending {
  int code = -1;  // 128 + signal when killed
  std::string log{};
};

Ending ending_of(const std::function<void()>& body) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    set_log_name("tool");
    body();
    ::_exit(0);
  }
  ::close(ends[1]);
  Ending ending;
  char piece[512];
  for (ssize_t got = 0; (got = ::read(ends[0], piece, sizeof piece)) > 0;) {
    ending.log.append(piece, static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  ending.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ending;
}

void wait_for_ever() {
  for (;;) ::pause();
}

TEST(StopSignals, AreAcknowledgedAtOnceWhateverTheWorkDoes) {
  const Ending ending = ending_of([] {
    install_stop_signals({.asked = "; it ends after this step"});
    std::raise(SIGTERM);
    ::_exit(stop_signal());
  });
  EXPECT_EQ(ending.code, SIGTERM);
  EXPECT_EQ(ending.log, "tool: stop requested by SIGTERM; it ends after this step\n");
}

TEST(StopSignals, EndWorkThatDoesNotLookWithinTheLimit) {
  const auto begin = std::chrono::steady_clock::now();
  const Ending ending = ending_of([] {
    install_stop_signals({.limit_s = 0.05, .ended = "; run it again"});
    std::raise(SIGINT);
    wait_for_ever();
  });
  EXPECT_EQ(ending.code, 75);
  EXPECT_EQ(ending.log, "tool: stop requested by SIGINT; run it again\n");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(StopSignals, EndWorkThatHasNothingToSaveAtOnce) {
  EXPECT_EQ(ending_of([] {
              install_stop_signals({.limit_s = 0});
              std::raise(SIGUSR1);
            }).code,
            75);
}

TEST(StopSignals, IncludeHangUpUnlessItCameIgnored) {
  EXPECT_EQ(ending_of([] {
              install_stop_signals();
              std::raise(SIGHUP);
              ::_exit(stop_signal());
            }).code,
            SIGHUP);
  EXPECT_EQ(ending_of([] {
              std::signal(SIGHUP, SIG_IGN);  // nohup
              install_stop_signals();
              std::raise(SIGHUP);
              ::_exit(stop_signal());
            }).code,
            0);
}

TEST(StopSignals, ASecondInterruptEndsTheProcess) {
  EXPECT_EQ(ending_of([] {
              install_stop_signals();
              std::raise(SIGINT);
              std::raise(SIGINT);
              wait_for_ever();
            }).code,
            130);
}

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

// A pause without end would hang.
TEST(Signals, EndWhatWaits) {
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

// As where a library jumps to code for which it got no memory.
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
