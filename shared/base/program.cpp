#include "shared/base/program.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <system_error>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/log.h"
#include "shared/base/memory.h"
#include "shared/base/printable.h"
#include "shared/base/signals.h"

namespace retina {
namespace {

constexpr rlim_t kFiles = 65536;

// Only the first line: LibTorch and others append backtraces that mean nothing to a user.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

int report(const std::string& message, const std::string& hint, ErrorKind kind) {
  log_error(first_line(message), hint.empty() ? "" : cat("; hint: ", hint));
  return exit_code(kind);
}

// The next file that is opened takes the lowest free number: a log that is written to 2, a result
// printed on 1, would go into it.
void fill_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // Where there is no /dev, something that cannot be written to.
    if (::open("/dev/null", stream == STDIN_FILENO ? O_RDONLY : O_WRONLY) < 0) {
      ::open("/", O_RDONLY | O_DIRECTORY);
    }
  }
}

// `head` has read enough, or the terminal is gone.
bool has_no_reader(int file) {
  struct pollfd state {
    .fd = file, .events = POLLOUT, .revents = 0
  };
  return ::poll(&state, 1, 0) == 1 && (state.revents & POLLERR) != 0;
}

// A set has a file per shard, a job a connection per rank: 1024, the usual limit, is too few.
void allow_many_files() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min<rlim_t>(limit.rlim_max, kFiles));
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

constexpr const char* kLessMemory =
    "use smaller images, fewer of them at a time (retina-train --micro-batch, retina-eval "
    "--images-per-batch) or fewer threads";

// An exception that is not ours; the one being handled.
int report_foreign() {
  try {
    throw;
  } catch (const std::filesystem::filesystem_error& error) {
    const Error ours = read_error(error.path1().string(), error.code().value());
    return report(ours.what(), ours.hint(), ours.kind());
  } catch (const std::system_error& error) {
    return report(cat("the system refused something needed (", error.code().message(), ")"),
                  "free memory, or raise the limits of processes and files (`ulimit -u`, -n)",
                  ErrorKind::kUnavailable);
  } catch (const std::exception& error) {
    if (const auto problem = out_of_memory(error)) {
      return report(*problem, kLessMemory, ErrorKind::kUnavailable);
    }
    return report(
        cat("an error that the program does not know (", library_reason(error.what()), ")"),
        "this is a bug in retina-batch; please report it with the command", ErrorKind::kInternal);
  }
}

}  // namespace

int run_program(const std::string& name, const std::function<int()>& body,
                const std::function<void(int)>& on_error) {
  fill_standard_streams();
  set_log_name(name);
  allow_many_files();
  install_memory_errors();
  for (const int signal : {SIGXFSZ, SIGPIPE}) std::signal(signal, SIG_IGN);  // the write fails then
  int code = 0;
  try {
    code = body();
    flush_results();
    return code;
  } catch (const Error& error) {
    code = report(error.what(), error.hint(), error.kind());
  } catch (const std::exception&) {
    code = report_foreign();
  }
  if (on_error) on_error(code);
  return code;
}

void flush_results() {
  errno = 0;
  std::cout.flush();
  if (std::cout) return;
  const std::string reason = errno != 0 ? cat(" (", std::strerror(errno), ")") : "";
  std::cout.clear();  // said once
  if (has_no_reader(STDOUT_FILENO)) return;
  throw Error(ErrorKind::kIo, cat("stdout: the results could not be written", reason),
              "free some space, or send stdout elsewhere");
}

}  // namespace retina
