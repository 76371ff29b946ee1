// A library to preload into the real programs: file systems that refuse, fill up, tear or vanish,
// and deaths inside a chosen call. It stands before the C library's calls; rules.h has the rules,
// faulty.h makes command lines for tests.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstring>
#include <string>

#include "tests/support/faults/rules.h"

namespace {

using faults::filling;
using faults::firing;
using faults::Rule;
using faults::rules;

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

std::string path_of(int descriptor) {
  std::array<char, 4096> target{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t size = ::readlink(link.c_str(), target.data(), target.size());
  return size < 0 ? "" : std::string(target.data(), static_cast<std::size_t>(size));
}

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

bool any_rules() {
  return !rules().empty();
}

// What a vanished folder looks like: gone, or an empty place where it was mounted.
void take_away(const Rule& rule) {
  if (rule.effect != "vanish" && rule.effect != "unmount") return;
  real<int(const char*, const char*)>("rename")(rule.path.c_str(), (rule.path + ".gone").c_str());
  if (rule.effect == "unmount") real<int(const char*, mode_t)>("mkdir")(rule.path.c_str(), 0777);
}

// A call that is done or not: `perform` does it.
template <class Perform>
auto faulty(const char* call, const std::string& path, const Perform& perform)
    -> decltype(perform()) {
  Rule* const rule = firing(call, path);
  if (rule == nullptr) return perform();
  if (rule->effect == "kill") die();
  if (rule->effect == "tear") {
    perform();
    die();
  }
  if (rule->code == 0) {
    take_away(*rule);
    return perform();
  }
  errno = rule->code;
  return decltype(perform())(-1);
}

// `perform(size)` writes that many of the bytes.
template <class Perform>
ssize_t faulty_write(int descriptor, std::size_t size, const Perform& perform) {
  if (!any_rules()) return perform(size);
  const std::string path = path_of(descriptor);
  if (const Rule* full = filling(path, size)) {
    errno = full->code;
    return -1;
  }
  Rule* const rule = firing("write", path);
  if (rule == nullptr) return perform(size);
  if (rule->effect == "kill") die();
  if (rule->effect == "tear") {
    if (size > 1) perform(size / 2);
    die();
  }
  if (rule->effect == "short") return perform(size > 1 ? size / 2 : size);
  if (rule->code == 0) {
    take_away(*rule);
    return perform(size);
  }
  errno = rule->code;
  return -1;
}

bool for_writing(int flags) {
  return (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) != 0;
}

int any_open(const char* name, const char* path, int flags, mode_t mode) {
  const auto open_it = [&] { return real<int(const char*, int, ...)>(name)(path, flags, mode); };
  if (!any_rules() || !for_writing(flags)) return open_it();
  return faulty("open", path, open_it);
}

std::string parent_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

void* any_mmap(const char* name, void* at, std::size_t size, int protection, int flags,
               int descriptor, off_t offset) {
  if (any_rules() && descriptor >= 0) {
    if (const Rule* rule = firing("mmap", path_of(descriptor))) {
      errno = rule->code;
      return MAP_FAILED;
    }
  }
  return real<void*(void*, std::size_t, int, int, int, off_t)>(name)(at, size, protection, flags,
                                                                     descriptor, offset);
}

int any_statvfs(const char* name, const char* path, struct statvfs* status) {
  const int code = real<int(const char*, struct statvfs*)>(name)(path, status);
  for (const Rule* rule : rules()) {
    if (rule->call != "space" || std::strncmp(path, rule->path.c_str(), rule->path.size()) != 0) {
      continue;
    }
    status->f_frsize = 1;
    status->f_bavail = static_cast<fsblkcnt_t>(rule->bytes);
  }
  return code;
}

int any_statfs(const char* name, const char* path, struct statfs* status) {
  const int code = real<int(const char*, struct statfs*)>(name)(path, status);
  if (firing("type", path) != nullptr) status->f_type = 0x6969;  // NFS
  return code;
}

}  // namespace

// The names that the programs link to; on this platform off_t has 64 bits under both.
extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  return any_open("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  return any_open("open64", path, flags, mode);
}

int mkostemp(char* pattern, int flags) {
  return faulty("open", pattern, [&] { return real<int(char*, int)>("mkostemp")(pattern, flags); });
}

int mkdir(const char* path, mode_t mode) {
  return faulty("open", path, [&] { return real<int(const char*, mode_t)>("mkdir")(path, mode); });
}

ssize_t write(int descriptor, const void* bytes, size_t size) {
  return faulty_write(descriptor, size, [&](std::size_t part) {
    return real<ssize_t(int, const void*, size_t)>("write")(descriptor, bytes, part);
  });
}

ssize_t pwrite(int descriptor, const void* bytes, size_t size, off_t offset) {
  return faulty_write(descriptor, size, [&](std::size_t part) {
    return real<ssize_t(int, const void*, size_t, off_t)>("pwrite")(descriptor, bytes, part,
                                                                    offset);
  });
}

ssize_t pwrite64(int descriptor, const void* bytes, size_t size, off_t offset) {
  return pwrite(descriptor, bytes, size, offset);
}

// All or the first piece.
ssize_t writev(int descriptor, const struct iovec* pieces, int count) {
  std::size_t size = 0;
  for (int i = 0; i < count; ++i) size += pieces[i].iov_len;
  return faulty_write(descriptor, size, [&](std::size_t part) {
    return real<ssize_t(int, const struct iovec*, int)>("writev")(descriptor, pieces,
                                                                  part < size ? 1 : count);
  });
}

ssize_t pwritev(int descriptor, const struct iovec* pieces, int count, off_t offset) {
  std::size_t size = 0;
  for (int i = 0; i < count; ++i) size += pieces[i].iov_len;
  return faulty_write(descriptor, size, [&](std::size_t part) {
    return real<ssize_t(int, const struct iovec*, int, off_t)>("pwritev")(
        descriptor, pieces, part < size ? 1 : count, offset);
  });
}

ssize_t pwritev64(int descriptor, const struct iovec* pieces, int count, off_t offset) {
  return pwritev(descriptor, pieces, count, offset);
}

ssize_t read(int descriptor, void* bytes, size_t size) {
  const auto read_it = [&] {
    return real<ssize_t(int, void*, size_t)>("read")(descriptor, bytes, size);
  };
  if (!any_rules()) return read_it();
  const std::string path = path_of(descriptor);
  const Rule* const rule = firing("read", path);
  if (rule != nullptr && rule->code != 0) {
    errno = rule->code;
    return -1;
  }
  if (rule != nullptr) take_away(*rule);
  const ssize_t got = read_it();
  if (rule != nullptr && rule->effect == "flip" && got > 0) *static_cast<char*>(bytes) ^= 1;
  return got;
}

int fsync(int descriptor) {
  struct stat status {};
  const bool folder = ::fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode);
  return faulty(folder ? "fsync-folder" : "fsync", path_of(descriptor),
                [&] { return real<int(int)>("fsync")(descriptor); });
}

int fdatasync(int descriptor) {
  return faulty("fsync", path_of(descriptor),
                [&] { return real<int(int)>("fdatasync")(descriptor); });
}

int flock(int descriptor, int operation) {
  return faulty("lock", path_of(descriptor),
                [&] { return real<int(int, int)>("flock")(descriptor, operation); });
}

int rename(const char* from, const char* to) {
  const auto rename_it = [&] { return real<int(const char*, const char*)>("rename")(from, to); };
  return faulty("rename", to, [&]() -> int {
    const auto across = [&] {
      return parent_of(from) == parent_of(to) ? rename_it()
                                              : faulty("rename-across", to, rename_it);
    };
    return ::access(to, F_OK) == 0 ? faulty("rename-over", to, across) : across();
  });
}

int unlink(const char* path) {
  return faulty("unlink", path, [&] { return real<int(const char*)>("unlink")(path); });
}

int remove(const char* path) {
  return faulty("unlink", path, [&] { return real<int(const char*)>("remove")(path); });
}

int truncate(const char* path, off_t size) {
  return faulty("cut", path, [&] { return real<int(const char*, off_t)>("truncate")(path, size); });
}

int truncate64(const char* path, off_t size) {
  return truncate(path, size);
}

int ftruncate(int descriptor, off_t size) {
  return faulty("cut", path_of(descriptor),
                [&] { return real<int(int, off_t)>("ftruncate")(descriptor, size); });
}

int ftruncate64(int descriptor, off_t size) {
  return ftruncate(descriptor, size);
}

void* mmap(void* at, size_t size, int protection, int flags, int descriptor, off_t offset) {
  return any_mmap("mmap", at, size, protection, flags, descriptor, offset);
}

void* mmap64(void* at, size_t size, int protection, int flags, int descriptor, off_t offset) {
  return any_mmap("mmap64", at, size, protection, flags, descriptor, offset);
}

int statvfs(const char* path, struct statvfs* status) {
  return any_statvfs("statvfs", path, status);
}

int statfs(const char* path, struct statfs* status) {
  return any_statfs("statfs", path, status);
}

int statfs64(const char* path, struct statfs64* status) {
  return any_statfs("statfs64", path, reinterpret_cast<struct statfs*>(status));
}

}  // extern "C"
