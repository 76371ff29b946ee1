#include "shared/base/program.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <new>
#include <system_error>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/log.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(RunProgram, ReturnsWhatTheBodyReturns) {
  EXPECT_EQ(run_program("tool", [] { return 0; }), 0);
  EXPECT_EQ(run_program("tool", [] { return 1; }), 1);
}

TEST(RunProgram, TurnsAnErrorIntoItsExitCodeAndOneLine) {
  testing::internal::CaptureStderr();
  const int code = run_program("tool", []() -> int {
    throw Error(ErrorKind::kData, "f.json: is cut\nsecond line", "copy it again");
  });
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(code, 65);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_THAT(text, HasSubstr("tool: error: f.json: is cut"));
  EXPECT_THAT(text, HasSubstr("copy it again"));
}

TEST(RunProgram, CallsAnUnknownExceptionABug) {
  testing::internal::CaptureStderr();
  const int code = run_program("tool", []() -> int { throw std::runtime_error("surprise"); });
  EXPECT_EQ(code, 70);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("surprise"));
}

TEST(RunProgram, TranslatesWhatTheSystemAndLibrariesThrow) {
  const auto ending = [](const std::function<void()>& fail) {
    testing::internal::CaptureStderr();
    const int code = run_program("tool", [&] {
      fail();
      return 0;
    });
    return cat(code, " ", testing::internal::GetCapturedStderr());
  };
  EXPECT_THAT(ending([] { std::filesystem::resize_file("/nowhere/file", 1); }),
              AllOf(StartsWith("66 "), HasSubstr("/nowhere/file: cannot be read (No such file")));
  EXPECT_THAT(
      ending([] {
        throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
      }),
      AllOf(StartsWith("69 "), HasSubstr("Resource temporarily unavailable")));
  EXPECT_THAT(ending([] { std::vector<char>().reserve(std::size_t{1} << 63); }),
              AllOf(StartsWith("69 "), HasSubstr("out of memory")));
  EXPECT_THAT(
      ending([] { throw std::runtime_error("Exception from src/a.cpp:7:\nno memory map\n"); }),
      AllOf(StartsWith("70 "), HasSubstr("(no memory map)"), HasSubstr("bug")));
}

TEST(RunProgram, SaysThatMemoryRanOut) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_program("tool", []() -> int { throw std::bad_alloc(); }), 69);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("out of memory"));
}

TEST(RunProgram, SaysThatMemoryOfAGpuRanOut) {
  for (const char* message :
       {"CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.1 GiB\nx",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "could not create a primitive",
        "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate "
        "memory"}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(run_program("tool", [&]() -> int { throw std::runtime_error(message); }), 69);
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
    EXPECT_THAT(text, HasSubstr("--micro-batch"));
  }
}

TEST(RunProgramDeathTest, AWriteBeyondAFileSizeLimitIsAnErrorAndNoDeath) {
  const TestFolder folder;
  const auto write_too_much = [&] {
    const struct rlimit limit { .rlim_cur = 4096, .rlim_max = 4096 };
    ::setrlimit(RLIMIT_FSIZE, &limit);
    return run_program("tool", [&] {
      write_file_atomically(folder / "file", std::string(8192, 'x'));
      return 0;
    });
  };
  EXPECT_EXIT(std::exit(write_too_much()), testing::ExitedWithCode(74), "File too large");
}

// `tool 2>&1 | head`, or into what takes nothing; exits with the program's code, 99 where its file
// is not there.
[[noreturn]] void print_much_into(int file, const std::string& path) {
  ::dup2(file, STDOUT_FILENO);
  const int code = run_program("tool", [&] {
    for (int i = 0; i < 100'000; ++i) std::cout << "a line\n";
    log_warning("a log");
    write_file_atomically(path, "x");
    return 0;
  });
  std::_Exit(path_exists(path) ? code : 99);
}

TEST(RunProgramDeathTest, AReaderThatGoesAwayCostsNoRunAndAFullDiskDoes) {
  const TestFolder folder;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ::close(ends[0]);
  EXPECT_EXIT(print_much_into(ends[1], folder / "file"), testing::ExitedWithCode(0), "a log");
  // Nobody reads the log either.
  const auto without_log = [&] {
    ::dup2(ends[1], STDERR_FILENO);
    print_much_into(ends[1], folder / "other");
  };
  EXPECT_EXIT(without_log(), testing::ExitedWithCode(0), "");
  const int full = ::open("/dev/full", O_WRONLY);
  EXPECT_EXIT(print_much_into(full, folder / "last"), testing::ExitedWithCode(74),
              "stdout: the results could not be written");
}

TEST(RunProgram, TellsTheHandlerTheExitCode) {
  testing::internal::CaptureStderr();
  int seen = 0;
  run_program(
      "tool", []() -> int { throw Error(ErrorKind::kRankFailure, "rank 1 died"); },
      [&](int code) { seen = code; });
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(seen, 76);
}

TEST(Check, IsABugWithPlaceAndDetail) {
  try {
    const int count = 3;
    RETINA_CHECK(count == 4, "count is ", count);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    EXPECT_THAT(error.what(), HasSubstr("count == 4"));
    EXPECT_THAT(error.what(), HasSubstr("count is 3"));
    EXPECT_THAT(error.what(), HasSubstr("program_test.cpp"));
  }
}

}  // namespace
}  // namespace retina
