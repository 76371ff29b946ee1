#include "shared/base/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <new>
#include <system_error>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/file.h"
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
