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

// The exit code, which the handler gets too, and the one line on stderr of a program that throws.
std::string ending(const std::function<void()>& fail) {
  testing::internal::CaptureStderr();
  int seen = 0;
  const int code = run_program(
      "tool",
      [&] {
        fail();
        return 0;
      },
      [&](int handed) { seen = handed; });
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(seen, code);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  return cat(code, " ", text);
}

TEST(RunProgram, ReturnsTheBodysValue) {
  EXPECT_EQ(run_program("tool", [] { return 0; }), 0);
  EXPECT_EQ(run_program("tool", [] { return 1; }), 1);
}

TEST(RunProgram, TurnsExceptionsIntoAnExitCodeAndOneLine) {
  EXPECT_THAT(
      ending([] { throw Error(ErrorKind::kData, "f.json: is cut\nsecond line", "copy it again"); }),
      AllOf(StartsWith("65 tool: error: f.json: is cut"), HasSubstr("copy it again")));
  EXPECT_THAT(ending([] { std::filesystem::resize_file("/nowhere/file", 1); }),
              AllOf(StartsWith("66 "), HasSubstr("/nowhere/file: cannot be read (No such file")));
  EXPECT_THAT(
      ending([] {
        throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
      }),
      AllOf(StartsWith("69 "), HasSubstr("Resource temporarily unavailable")));
  EXPECT_THAT(
      ending([] { throw std::runtime_error("Exception from src/a.cpp:7:\nno memory map\n"); }),
      AllOf(StartsWith("70 "), HasSubstr("(no memory map)"), HasSubstr("bug")));
  EXPECT_THAT(ending([] { RETINA_CHECK(1 + 1 == 3, "count is ", 3); }),
              AllOf(StartsWith("70 "), HasSubstr("1 + 1 == 3"), HasSubstr("count is 3"),
                    HasSubstr("program_test.cpp")));
}

TEST(RunProgram, SaysThatMemoryRanOut) {
  EXPECT_THAT(ending([] { throw std::bad_alloc(); }), StartsWith("69 tool: error: out of memory"));
  EXPECT_THAT(ending([] { std::vector<char>().reserve(std::size_t{1} << 63); }),
              StartsWith("69 tool: error: out of memory"));
  for (const char* message :
       {"CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.1 GiB\nx",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "could not create a primitive",
        "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate "
        "memory"}) {
    EXPECT_THAT(ending([&] { throw std::runtime_error(message); }),
                AllOf(StartsWith("69 tool: error: out of memory"), HasSubstr("--micro-batch")));
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

// `tool 2>&1 | head`, or into a full disk; exits with the program's code, or with 99 if its file is
// not there.
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

}  // namespace
}  // namespace retina
