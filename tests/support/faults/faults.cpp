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
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/support/faults/record.h"
#include "tests/support/faults/rules.h"

namespace {

using faults::filling;
using faults::firing;
using faults::record;
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

constexpr useconds_t kSlowUs = 300'000;

bool any_rules() {
  return !rules().empty();
}

// Effects beside which the call is done. What a vanished folder looks like: gone, or an empty place
// where it was mounted.
void act(const Rule& rule) {
  if (rule.effect == "slow") ::usleep(kSlowUs);
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
    act(*rule);
    return perform();
  }
  errno = rule->code;
  return decltype(perform())(-1);
}

// `perform(size)` writes that many of the bytes.
template <class Perform>
ssize_t write_or_not(int descriptor, std::size_t size, const Perform& perform) {
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
    act(*rule);
    return perform(size);
  }
  errno = rule->code;
  return -1;
}

// The same, and it is recorded; `offset` -1: at the file's own place.
template <class Perform>
ssize_t faulty_write(int descriptor, const struct iovec* pieces, int count, off_t offset,
                     const Perform& perform) {
  std::size_t size = 0;
  for (int i = 0; i < count; ++i) size += pieces[i].iov_len;
  const ssize_t wrote = write_or_not(descriptor, size, perform);
  if (wrote <= 0 || !faults::records()) return wrote;
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
  }
  bytes.resize(static_cast<std::size_t>(wrote));
  if (offset < 0) offset = ::lseek(descriptor, 0, SEEK_CUR) - wrote;
  record({.call = "write", .descriptor = descriptor, .offset = offset, .bytes = bytes});
  return wrote;
}

bool for_writing(int flags) {
  return (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) != 0;
}

int any_open(const char* name, const char* path, int flags, mode_t mode) {
  const auto open_it = [&] { return real<int(const char*, int, ...)>(name)(path, flags, mode); };
  if (!any_rules() || !for_writing(flags)) return open_it();
  const int file = faulty("open", path, open_it);
  if (file >= 0) record({.call = "open", .path = path, .descriptor = file});
  if (file >= 0 && (flags & O_TRUNC) != 0) record({.call = "cut", .descriptor = file});
  return file;
}

// What fopen()'s mode says to open().
int flags_of(const char* mode) {
  const int change = std::strchr(mode, '+') != nullptr ? O_RDWR : O_WRONLY;
  if (*mode == 'w') return change | O_CREAT | O_TRUNC;
  if (*mode == 'a') return change | O_CREAT | O_APPEND;
  return std::strchr(mode, '+') != nullptr ? O_RDWR : O_RDONLY;
}

std::FILE* any_fopen(const char* name, const char* path, const char* mode) {
  const auto open_it = [&] { return real<std::FILE*(const char*, const char*)>(name)(path, mode); };
  const int flags = flags_of(mode);
  if (!any_rules() || !for_writing(flags)) return open_it();
  std::FILE* file = nullptr;
  faulty("open", path, [&] { return (file = open_it()) == nullptr ? -1 : 0; });
  if (file == nullptr) return nullptr;
  record({.call = "open", .path = path, .descriptor = ::fileno(file)});
  if ((flags & O_TRUNC) != 0) record({.call = "cut", .descriptor = ::fileno(file)});
  return file;
}

// A call that returns 0 when it is done: it is recorded.
template <class Perform>
int faulty_change(const faults::Call& call, const std::string& path, const Perform& perform) {
  const int code = faulty(call.call, path, perform);
  if (code == 0) record(call);
  return code;
}

ssize_t any_read(const char* call, int descriptor, void* bytes, const auto& read_it) {
  if (!any_rules()) return read_it();
  const std::string path = path_of(descriptor);
  const Rule* const rule = firing(call, path);
  if (rule != nullptr && rule->code != 0) {
    errno = rule->code;
    return -1;
  }
  if (rule != nullptr) act(*rule);
  const ssize_t got = read_it();
  if (rule != nullptr && rule->effect == "flip" && got > 0) *static_cast<char*>(bytes) ^= 1;
  return got;
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

std::FILE* fopen(const char* path, const char* mode) {
  return any_fopen("fopen", path, mode);
}

std::FILE* fopen64(const char* path, const char* mode) {
  return any_fopen("fopen64", path, mode);
}

int mkostemp(char* pattern, int flags) {
  const int file =
      faulty("open", pattern, [&] { return real<int(char*, int)>("mkostemp")(pattern, flags); });
  if (file >= 0) record({.call = "open", .path = pattern, .descriptor = file});
  return file;
}

int mkdir(const char* path, mode_t mode) {
  const int code =
      faulty("open", path, [&] { return real<int(const char*, mode_t)>("mkdir")(path, mode); });
  if (code == 0) record({.call = "mkdir", .path = path});
  return code;
}

ssize_t write(int descriptor, const void* bytes, size_t size) {
  const struct iovec piece { const_cast<void*>(bytes), size };
  return faulty_write(descriptor, &piece, 1, -1, [&](std::size_t part) {
    return real<ssize_t(int, const void*, size_t)>("write")(descriptor, bytes, part);
  });
}

ssize_t pwrite(int descriptor, const void* bytes, size_t size, off_t offset) {
  const struct iovec piece { const_cast<void*>(bytes), size };
  return faulty_write(descriptor, &piece, 1, offset, [&](std::size_t part) {
    return real<ssize_t(int, const void*, size_t, off_t)>("pwrite")(descriptor, bytes, part,
                                                                    offset);
  });
}

ssize_t pwrite64(int descriptor, const void* bytes, size_t size, off_t offset) {
  return pwrite(descriptor, bytes, size, offset);
}

// All of `size` bytes or the first piece.
ssize_t writev(int descriptor, const struct iovec* pieces, int count) {
  std::size_t size = 0;
  for (int i = 0; i < count; ++i) size += pieces[i].iov_len;
  return faulty_write(descriptor, pieces, count, -1, [&](std::size_t part) {
    return real<ssize_t(int, const struct iovec*, int)>("writev")(descriptor, pieces,
                                                                  part < size ? 1 : count);
  });
}

ssize_t pwritev(int descriptor, const struct iovec* pieces, int count, off_t offset) {
  std::size_t size = 0;
  for (int i = 0; i < count; ++i) size += pieces[i].iov_len;
  return faulty_write(descriptor, pieces, count, offset, [&](std::size_t part) {
    return real<ssize_t(int, const struct iovec*, int, off_t)>("pwritev")(
        descriptor, pieces, part < size ? 1 : count, offset);
  });
}

ssize_t pwritev64(int descriptor, const struct iovec* pieces, int count, off_t offset) {
  return pwritev(descriptor, pieces, count, offset);
}

ssize_t read(int descriptor, void* bytes, size_t size) {
  return any_read("read", descriptor, bytes, [&] {
    return real<ssize_t(int, void*, size_t)>("read")(descriptor, bytes, size);
  });
}

ssize_t pread(int descriptor, void* bytes, size_t size, off_t offset) {
  return any_read("read-at", descriptor, bytes, [&] {
    return real<ssize_t(int, void*, size_t, off_t)>("pread")(descriptor, bytes, size, offset);
  });
}

ssize_t pread64(int descriptor, void* bytes, size_t size, off_t offset) {
  return pread(descriptor, bytes, size, offset);
}

int fsync(int descriptor) {
  struct stat status {};
  const bool folder = ::fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode);
  const std::string path = path_of(descriptor);
  return faulty_change({.call = folder ? "fsync-folder" : "fsync",
                        .path = path,
                        .descriptor = folder ? -1 : descriptor},
                       path, [&] { return real<int(int)>("fsync")(descriptor); });
}

int fdatasync(int descriptor) {
  const std::string path = path_of(descriptor);
  return faulty_change({.call = "fsync", .path = path, .descriptor = descriptor}, path,
                       [&] { return real<int(int)>("fdatasync")(descriptor); });
}

int flock(int descriptor, int operation) {
  return faulty("lock", path_of(descriptor),
                [&] { return real<int(int, int)>("flock")(descriptor, operation); });
}

int rename(const char* from, const char* to) {
  const auto rename_it = [&] { return real<int(const char*, const char*)>("rename")(from, to); };
  const faults::Call call = {.call = "rename", .path = from, .to = to};
  return faulty_change(call, to, [&]() -> int {
    const auto across = [&] {
      return parent_of(from) == parent_of(to) ? rename_it()
                                              : faulty("rename-across", to, rename_it);
    };
    return ::access(to, F_OK) == 0 ? faulty("rename-over", to, across) : across();
  });
}

int unlink(const char* path) {
  return faulty_change({.call = "unlink", .path = path}, path,
                       [&] { return real<int(const char*)>("unlink")(path); });
}

int remove(const char* path) {
  return faulty_change({.call = "unlink", .path = path}, path,
                       [&] { return real<int(const char*)>("remove")(path); });
}

int unlinkat(int folder, const char* name, int flags) {
  const std::string path = *name == '/' ? name : path_of(folder) + "/" + name;
  return faulty_change({.call = "unlink", .path = path}, path, [&] {
    return real<int(int, const char*, int)>("unlinkat")(folder, name, flags);
  });
}

int truncate(const char* path, off_t size) {
  return faulty_change({.call = "cut", .path = path, .offset = size}, path,
                       [&] { return real<int(const char*, off_t)>("truncate")(path, size); });
}

int truncate64(const char* path, off_t size) {
  return truncate(path, size);
}

int ftruncate(int descriptor, off_t size) {
  return faulty_change({.call = "cut", .descriptor = descriptor, .offset = size},
                       path_of(descriptor),
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
