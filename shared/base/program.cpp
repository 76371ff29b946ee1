#include "shared/base/program.h"

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <new>

#include "shared/base/bus_error.h"
#include "shared/base/error.h"
#include "shared/base/log.h"

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

// The words of LibTorch, CUDA, cuBLAS and cuDNN, whose exceptions have no common type.
bool means_out_of_memory(const std::string& message) {
  for (const char* words : {"out of memory", "ALLOC_FAILED", "can't allocate memory"}) {
    if (message.find(words) != std::string::npos) return true;
  }
  return false;
}

// A set has a file per shard, a job a connection per rank: 1024, the usual limit, is too few.
void allow_many_files() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min<rlim_t>(limit.rlim_max, kFiles));
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

constexpr const char* kLessMemory =
    "use smaller images, fewer of them at a time (retina-train --images-per-pass, retina-eval "
    "--images-per-batch) or fewer threads";

}  // namespace

int run_program(const std::string& name, const std::function<int()>& body,
                const std::function<void(int)>& on_error) {
  set_log_name(name);
  allow_many_files();
  install_bus_error();
  std::signal(SIGXFSZ, SIG_IGN);  // the write fails then
  int code = 0;
  try {
    return body();
  } catch (const Error& error) {
    code = report(error.what(), error.hint(), error.kind());
  } catch (const std::bad_alloc&) {
    code = report("out of memory", kLessMemory, ErrorKind::kUnavailable);
  } catch (const std::exception& error) {
    const std::string message = first_line(error.what());
    code = means_out_of_memory(message)
               ? report(message, kLessMemory, ErrorKind::kUnavailable)
               : report(message, "this is a bug in retina-batch; please report it with the command",
                        ErrorKind::kInternal);
  }
  if (on_error) on_error(code);
  return code;
}

}  // namespace retina
