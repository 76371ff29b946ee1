#include "tests/support/faults/record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>

#include "tests/support/faults/rules.h"

namespace faults {
namespace {

const Rule* record_rule() {
  for (const Rule* rule : rules()) {
    if (rule->effect == "record") return rule;
  }
  return nullptr;
}

// Below the rule's path; the folder itself counts, so does its entry in its parent.
bool covers(const std::string& path) {
  const std::string& top = record_rule()->path;
  return path.compare(0, top.size(), top) == 0;
}

std::string name_of(int descriptor) {
  char target[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t size = ::readlink(link.c_str(), target, sizeof target);
  return size < 0 ? "" : std::string(target, static_cast<std::size_t>(size));
}

// Raw calls: those of the C library are this library's.
void append(const std::string& bytes) {
  const char* const path = std::getenv("RETINA_FAULTS_RECORD");
  if (path == nullptr) return;
  const long file =
      ::syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0 ||
      ::syscall(SYS_write, file, bytes.data(), bytes.size()) != static_cast<long>(bytes.size())) {
    std::abort();
  }
  ::close(static_cast<int>(file));
}

}  // namespace

bool records() {
  return record_rule() != nullptr;
}

void record(const Call& call) {
  if (!records()) return;
  const int code = errno;
  const std::string path = call.path.empty() ? name_of(call.descriptor) : call.path;
  if (covers(path) || (!call.to.empty() && covers(call.to))) {
    struct stat status {};
    if (call.descriptor >= 0) ::fstat(call.descriptor, &status);
    const std::string sizes = std::to_string(path.size()) + " " + std::to_string(call.to.size()) +
                              " " + std::to_string(call.bytes.size());
    append(std::string(call.call) + " " + std::to_string(status.st_ino) + " " +
           std::to_string(call.offset) + " " + sizes + "\n" + path + call.to + call.bytes);
  }
  errno = code;
}

}  // namespace faults
