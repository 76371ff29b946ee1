#include "preprocess/processes.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <optional>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/program.h"
#include "shared/base/signals.h"

namespace retina {
namespace {

// The end of a process that failed.
struct Failure {
  std::string text{};
  ErrorKind kind = ErrorKind::kInternal;
};

[[noreturn]] void run_one(int i, pid_t parent, const std::function<void(int)>& work) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(exit_code(ErrorKind::kInterrupted));  // it is dead already
  const int code = run_program("coco-pack", [&] {
    work(i);
    return 0;
  });
  ::_exit(code);
}

std::optional<Failure> failure_of(int status) {
  if (WIFSIGNALED(status)) {
    return Failure{.text = cat("was killed by signal ", WTERMSIG(status)),
                   .kind = ErrorKind::kInterrupted};
  }
  const int code = WEXITSTATUS(status);
  if (code == 0) return std::nullopt;
  return Failure{.text = cat("ended with exit code ", code, ", see its message above"),
                 .kind = static_cast<ErrorKind>(code)};
}

}  // namespace

void run_processes(int count, const std::function<void(int)>& work) {
  std::cout.flush();  // else each prints it
  const pid_t parent = ::getpid();
  std::vector<pid_t> running;
  std::optional<Failure> first;
  const auto fail = [&](const Failure& failure) {
    if (first) return;
    first = failure;
    for (const pid_t process : running) ::kill(process, SIGTERM);
  };
  for (int i = 0; i < count && !first; ++i) {
    const pid_t process = ::fork();
    if (process == 0) run_one(i, parent, work);
    if (process > 0) {
      running.push_back(process);
    } else {
      fail({.text = cat("cannot be started (", std::strerror(errno), ")"),
            .kind = ErrorKind::kUnavailable});
    }
  }

  // Looks often enough for a stop, whose signal interrupts no wait.
  constexpr useconds_t kLookUs = 20'000;
  while (!running.empty()) {
    if (stop_signal() != 0) {
      fail({.text = cat("was stopped by signal ", stop_signal()), .kind = ErrorKind::kInterrupted});
    }
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, WNOHANG);
    if (ended <= 0) {
      ::usleep(kLookUs);
      continue;
    }
    running.erase(std::remove(running.begin(), running.end(), ended), running.end());
    if (const auto failure = failure_of(status)) fail(*failure);
  }
  if (!first) return;
  throw Error(first->kind, cat("a part ", first->text),
              "run the same command again, it continues each part");
}

}  // namespace retina
