#include "shared/base/program.h"

#include <exception>
#include <new>

#include "shared/base/error.h"
#include "shared/base/log.h"

namespace retina {
namespace {

// Only the first line: LibTorch and others append backtraces that say nothing to a user.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

int report(const std::string& message, const std::string& hint, ErrorKind kind) {
  log_error(first_line(message), hint.empty() ? "" : cat("; hint: ", hint));
  return exit_code(kind);
}

// The words of LibTorch, CUDA, cuBLAS and cuDNN, whose exceptions are of no common type.
bool means_out_of_memory(const std::string& message) {
  for (const char* words : {"out of memory", "ALLOC_FAILED", "can't allocate memory"}) {
    if (message.find(words) != std::string::npos) return true;
  }
  return false;
}

constexpr const char* kLessMemory =
    "use smaller images, fewer of them at a time (retina-train --images-per-pass, retina-eval "
    "--images-per-batch) or fewer threads";

}  // namespace

int run_program(const std::string& name, const std::function<int()>& body,
                const std::function<void(int)>& on_error) {
  set_log_name(name);
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
