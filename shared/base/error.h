// The one exception type of the project and the exit codes it maps to. Libraries throw `Error`;
// `run_program` (program.h) prints it and turns its kind into the exit code.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "shared/base/cat.h"

namespace retina {

// Kind of an error, as the caller of the program sees it. The values are the process exit codes
// (64..78 as in BSD sysexits.h): part of the command contract, never renumber.
enum class ErrorKind : int {
  kAnswerNo = 1,       // ran correctly, the answer is no (--verify, --min-score, a NaN loss)
  kUsage = 64,         // the command line is wrong
  kData = 65,          // an input's content is wrong
  kNoInput = 66,       // an input is missing or cannot be read
  kUnavailable = 69,   // a required resource is missing (a GPU, a rank count)
  kInternal = 70,      // a bug in this program
  kCannotCreate = 73,  // an output cannot be created
  kIo = 74,            // reading or writing failed (disk full, mount gone)
  kInterrupted = 75,   // stopped early with a saved checkpoint: run the same command again
  kRankFailure = 76,   // a rank died, hung or drifted: run the same command again
  kConfig = 78,        // options that contradict each other or the files
};

inline int exit_code(ErrorKind kind) {
  return static_cast<int>(kind);
}

// Carries a message that reads "subject: problem (got X, want Y)", lower case, without a full stop,
// and a hint: the user's next step, or empty.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message, std::string hint = "")
      : std::runtime_error(message), kind_(kind), hint_(std::move(hint)) {}

  ErrorKind kind() const { return kind_; }
  const std::string& hint() const { return hint_; }

 private:
  ErrorKind kind_;
  std::string hint_;
};

[[noreturn]] void fail_internal(const char* expression, const char* file, int line,
                                const std::string& detail);

}  // namespace retina

// A programmer's mistake, always checked: throws Error{kInternal}. Never reachable by user input.
#define RETINA_CHECK(condition, ...)                                         \
  do {                                                                       \
    if (!(condition)) {                                                      \
      ::retina::fail_internal(#condition, __FILE__, __LINE__,                \
                              ::retina::cat("" __VA_OPT__(, ) __VA_ARGS__)); \
    }                                                                        \
  } while (false)
