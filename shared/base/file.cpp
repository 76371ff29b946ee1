#include "shared/base/file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <regex.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/mount.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

std::string reason() {
  return std::strerror(errno);
}

std::string parent_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

constexpr const char* kMountHint = "fix the mount, then run the same command again";
constexpr const char* kWriteHint =
    "free some space or fix the mount, then run the same command again";

// Calls that a signal may interrupt on FUSE and NFS mounts.
template <class Call>
auto retried(const Call& call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags)
      : fd_(retried([&] { return ::open(path.c_str(), flags | O_CLOEXEC); })) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// After an fsync that returned -1: one warning, or kIo.
void judge_failed_sync(const std::string& path, MountAbility ability) {
  const int code = errno;
  if (!means_unsupported(code)) {
    throw Error(ErrorKind::kIo, cat(path, ": writing to the disk failed (", reason(), ")"),
                kWriteHint);
  }
  warn_unsupported(ability, path, code);
}

void write_all(int descriptor, const std::string& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = retried([&] { return ::write(descriptor, bytes.data(), bytes.size()); });
    if (wrote < 0) {
      throw Error(ErrorKind::kIo, cat(path, ": writing failed (", reason(), ")"), kWriteHint);
    }
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

int renamed(const std::string& from, const std::string& to) {
  return retried([&] { return std::rename(from.c_str(), to.c_str()); });
}

std::string aside(const std::string& path) {
  return path + ".old";
}

// SMB does not rename over a file (or one that a virus scanner has open): the old one is moved
// aside.
bool replaced_through_aside(const std::string& temporary, const std::string& path) {
  remove_file(aside(path));
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored) || renamed(path, aside(path)) != 0) return false;
  if (renamed(temporary, path) == 0) {
    remove_file(aside(path));
    return true;
  }
  const int code = errno;
  renamed(aside(path), path);
  errno = code;
  return false;
}

void move_into_place(const std::string& temporary, const std::string& path) {
  if (renamed(temporary, path) == 0) return;
  if (errno == EXDEV && parent_of(temporary) != parent_of(path)) {
    deliver_file(temporary, path);
    remove_file(temporary);
    return;
  }
  const bool refused = errno == EEXIST || errno == EACCES || errno == EPERM || errno == EBUSY;
  const int code = errno;
  if (refused && replaced_through_aside(temporary, path)) return;
  throw Error(ErrorKind::kIo,
              cat(path, ": cannot be renamed into place (", std::strerror(code), ")"), kWriteHint);
}

}  // namespace

Error read_error(const std::string& path, int code) {
  const std::string problem = cat(path, ": cannot be read (", std::strerror(code), ")");
  switch (code) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
    case ELOOP:
    case ENXIO:
    case EACCES:
    case EPERM:
    case EISDIR:
    case EOPNOTSUPP:
      return {ErrorKind::kNoInput, problem, "check the path and its permissions"};
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return {ErrorKind::kUnavailable, problem, "raise `ulimit -n`, or free memory"};
    default:
      return {ErrorKind::kIo, problem, kMountHint};
  }
}

namespace {

// What `mode` says that a path is, where that is not a regular file.
const char* other_than_file(mode_t mode) {
  if (S_ISREG(mode)) return nullptr;
  if (S_ISDIR(mode)) return "is a folder (want a file)";
  if (S_ISFIFO(mode)) return "is a pipe (want a regular file)";
  return "is a device or socket (want a regular file)";
}

// Files that the kernel makes up while they are read: some wait for news, some have no end.
bool is_of_kernel(int descriptor) {
  struct statfs system {};
  if (::fstatfs(descriptor, &system) != 0) return false;
  switch (static_cast<unsigned long>(system.f_type)) {
    case PROC_SUPER_MAGIC:
    case SYSFS_MAGIC:
    case DEBUGFS_MAGIC:
    case TRACEFS_MAGIC:
      return true;
    default:
      return false;
  }
}

Error not_a_file(const std::string& path, const std::string& problem) {
  return {ErrorKind::kNoInput, cat(path, ": ", problem),
          "give the path of a file; what a command prints can be written to one"};
}

// Opening a pipe would wait for its writer. A regular file only refuses not to wait when somebody
// holds a lease on it (Samba), which ends by being waited for.
int open_input(const std::string& path) {
  const auto open = [&](int flags) {
    return retried([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | flags); });
  };
  const int descriptor = open(O_NONBLOCK);
  return descriptor < 0 && errno == EWOULDBLOCK ? open(0) : descriptor;
}

std::uint64_t memory_bytes() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// Calls `read_more(bytes that are there)` until `size_bytes` are, or the file ends.
template <class Call>
std::size_t read_all(const std::string& path, std::size_t size_bytes, const Call& read_more) {
  std::size_t count = 0;
  while (count < size_bytes) {
    const ssize_t got = retried([&] { return read_more(count); });
    if (got < 0) {
      throw Error(ErrorKind::kIo, cat(path, ": reading failed (", reason(), ")"), kMountHint);
    }
    if (got == 0) break;
    count += static_cast<std::size_t>(got);
  }
  return count;
}

// Whole content, of `max_bytes` at most; throws `too_large(got)` where there is more.
template <class TooLarge>
std::string read_whole(const std::string& path, std::uint64_t max_bytes,
                       const TooLarge& too_large) {
  FileReader file(path);
  if (file.size_bytes() > max_bytes) throw too_large(file.size_bytes());
  std::string bytes(file.size_bytes(), '\0');
  bytes.resize(file.read(bytes.data(), bytes.size()));
  // A file that grows, or one of a file system that reports no sizes.
  std::array<char, 4096> more;
  while (const std::size_t got = file.read(more.data(), more.size())) {
    bytes.append(more.data(), got);
    if (bytes.size() > max_bytes) throw too_large(bytes.size());
  }
  return bytes;
}

}  // namespace

FileReader::FileReader(const std::string& path) : path_(path), descriptor_(open_input(path)) {
  if (descriptor_ < 0) throw read_error(path, errno);
  struct stat status {};
  const int code = ::fstat(descriptor_, &status) != 0 ? errno : 0;
  const char* problem = code == 0 ? other_than_file(status.st_mode) : nullptr;
  if (code == 0 && problem == nullptr && status.st_size == 0 && is_of_kernel(descriptor_)) {
    problem = "is a file of the kernel (want one on a disk)";
  }
  if (code != 0 || problem != nullptr) {
    ::close(descriptor_);
    throw code != 0 ? read_error(path, code) : not_a_file(path, problem);
  }
  ::fcntl(descriptor_, F_SETFL, ::fcntl(descriptor_, F_GETFL) & ~O_NONBLOCK);
  size_bytes_ = static_cast<std::size_t>(std::max<off_t>(0, status.st_size));
}

FileReader::~FileReader() {
  ::close(descriptor_);
}

std::size_t FileReader::read(char* buffer, std::size_t size_bytes) {
  return read_all(path_, size_bytes, [&](std::size_t done) {
    return ::read(descriptor_, buffer + done, size_bytes - done);
  });
}

std::size_t FileReader::read_at(std::uint64_t offset_bytes, char* buffer,
                                std::size_t size_bytes) const {
  return read_all(path_, size_bytes, [&](std::size_t done) {
    return ::pread(descriptor_, buffer + done, size_bytes - done,
                   static_cast<off_t>(offset_bytes + done));
  });
}

void FileReader::seek(std::uint64_t offset_bytes) {
  if (::lseek(descriptor_, static_cast<off_t>(offset_bytes), SEEK_SET) >= 0) return;
  throw Error(ErrorKind::kIo, cat(path_, ": seeking failed (", reason(), ")"), kMountHint);
}

void read_pieces(const std::string& path, const std::function<void(std::string_view)>& take) {
  FileReader file(path);
  // Of a small file, in one small piece: a photograph is not worth zeroing a megabyte.
  constexpr std::size_t kSmallest = 64 << 10, kLargest = 1 << 20;
  const std::size_t size = std::clamp(file.size_bytes(), kSmallest, kLargest);
  const auto piece = std::make_unique_for_overwrite<char[]>(size);
  while (const std::size_t got = file.read(piece.get(), size)) take({piece.get(), got});
}

std::string read_start(const std::string& path, std::size_t max_bytes) {
  std::string bytes(max_bytes, '\0');
  bytes.resize(FileReader(path).read(bytes.data(), max_bytes));
  return bytes;
}

std::string read_part(const std::string& path, std::uint64_t offset_bytes, std::size_t max_bytes) {
  FileReader file(path);
  file.seek(offset_bytes);
  std::string bytes(max_bytes, '\0');
  bytes.resize(file.read(bytes.data(), max_bytes));
  return bytes;
}

std::string read_file(const std::string& path) {
  const std::uint64_t limit = memory_bytes();
  return read_whole(path, limit, [&](std::uint64_t got) {
    return Error(ErrorKind::kUnavailable,
                 cat(path, ": is larger than this machine's memory (got ",
                     human_bytes(static_cast<double>(got)), ", want at most ",
                     human_bytes(static_cast<double>(limit)), ")"),
                 "check that this is the file you mean");
  });
}

std::string read_text(const std::string& path, std::uint64_t max_bytes) {
  return read_whole(path, max_bytes, [&](std::uint64_t got) {
    return Error(ErrorKind::kData,
                 cat(path, ": is too large to be this kind of text (got ",
                     human_bytes(static_cast<double>(got)), ", want at most ",
                     human_bytes(static_cast<double>(max_bytes)), ")"),
                 "check that this is the file you mean");
  });
}

std::uint64_t file_size_bytes(const std::string& path) {
  struct stat status {};
  if (retried([&] { return ::stat(path.c_str(), &status); }) != 0) throw read_error(path, errno);
  if (const char* problem = other_than_file(status.st_mode)) throw not_a_file(path, problem);
  return static_cast<std::uint64_t>(status.st_size);
}

bool name_matches(const std::string& name, const char* pattern) {
  regex_t compiled;
  const std::string whole = cat("^(", pattern, ")$");
  RETINA_CHECK(::regcomp(&compiled, whole.c_str(), REG_EXTENDED | REG_NOSUB) == 0, pattern);
  // A zero byte from a damaged file would hide what follows it.
  const bool matches = name.find('\0') == std::string::npos &&
                       ::regexec(&compiled, name.c_str(), 0, nullptr, 0) == 0;
  ::regfree(&compiled);
  return matches;
}

bool path_exists(const std::string& path) {
  std::error_code code;
  const bool exists = fs::exists(path, code);
  if (code && read_error(path, code.value()).kind() == ErrorKind::kIo) {
    throw read_error(path, code.value());
  }
  return exists;
}

bool is_folder(const std::string& path) {
  std::error_code code;
  return fs::is_directory(path, code);
}

void make_folder(const std::string& path, const std::string& option) {
  std::error_code code;
  fs::create_directories(path, code);
  if (code || !is_folder(path)) {
    throw Error(ErrorKind::kCannotCreate,
                cat(path, ": cannot create the folder (",
                    code ? code.message() : std::string("a file has this name"), ")"),
                cat("choose another ", option, " or fix its permissions"));
  }
}

void make_folder_of(const std::string& path, const std::string& option) {
  make_folder(parent_of(path), option);
}

std::optional<std::uint64_t> free_space_bytes(const std::string& path) {
  struct statvfs status {};
  // Mounts that do not know their size report no blocks at all.
  if (::statvfs(path.c_str(), &status) != 0 || status.f_blocks == 0) return std::nullopt;
  return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
}

void require_space(const std::string& folder, double needed_bytes, const std::string& option) {
  const auto free_bytes = free_space_bytes(folder);
  if (!free_bytes || static_cast<double>(*free_bytes) >= needed_bytes) return;
  throw Error(
      ErrorKind::kIo,
      cat(folder, ": too little free space (got ", human_bytes(static_cast<double>(*free_bytes)),
          ", want about ", human_bytes(needed_bytes), ")"),
      cat("free some space, or choose another ", option));
}

void remove_file(const std::string& path) {
  std::error_code code;
  fs::remove(path, code);
}

bool is_name_of(const std::string& path, int descriptor) {
  struct stat there {
  }, open_file{};
  return ::stat(path.c_str(), &there) == 0 && ::fstat(descriptor, &open_file) == 0 &&
         there.st_dev == open_file.st_dev && there.st_ino == open_file.st_ino;
}

void sync_path(const std::string& path) {
  const bool folder = is_folder(path);
  const auto ability = folder ? MountAbility::kFolderSync : MountAbility::kFileSync;
  const Descriptor file(path, folder ? O_RDONLY | O_DIRECTORY : O_RDONLY);
  if (folder && file.get() < 0) {  // a folder that may be written but not read
    warn_unsupported(ability, path, errno);
    return;
  }
  if (file.get() < 0 || retried([&] { return ::fsync(file.get()); }) != 0) {
    judge_failed_sync(path, ability);
  }
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), temporary_(path_ + ".tmp") {
  descriptor_ = retried(
      [&] { return ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666); });
  if (descriptor_ < 0) {
    throw Error(ErrorKind::kCannotCreate, cat(path_, ": cannot be created (", reason(), ")"),
                "check that the folder exists and can be written");
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!committed_) remove_file(temporary_);
}

void AtomicFile::write(const void* data, std::size_t size_bytes) {
  write_all(descriptor_, path_, {static_cast<const char*>(data), size_bytes});
}

// Through the descriptor that wrote: a later one may miss write-back errors.
void AtomicFile::sync_and_close() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (descriptor < 0) return;
  const bool synced = retried([&] { return ::fsync(descriptor); }) == 0;
  const int sync_code = errno;
  // An interrupted close() has closed the file.
  const bool closed = ::close(descriptor) == 0 || errno == EINTR;
  if (!closed) {
    throw Error(ErrorKind::kIo, cat(path_, ": closing failed (", reason(), ")"), kWriteHint);
  }
  errno = sync_code;
  if (!synced) judge_failed_sync(path_, MountAbility::kFileSync);
}

void AtomicFile::commit(const std::function<void(const std::string&)>& verify) {
  sync_and_close();
  if (verify) verify(temporary_);
  move_into_place(temporary_, path_);
  committed_ = true;
  sync_path(parent_of(path_));
}

AppendFile::AppendFile(std::string path, const std::string& option) : path_(std::move(path)) {
  descriptor_ = retried(
      [&] { return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666); });
  if (descriptor_ >= 0) return;
  throw Error(ErrorKind::kCannotCreate, cat(path_, ": cannot be created (", reason(), ")"),
              cat("choose another ", option, " or fix its permissions"));
}

AppendFile::~AppendFile() {
  ::close(descriptor_);
}

void AppendFile::append(std::string_view bytes) {
  write_all(descriptor_, path_, bytes);
}

void AppendFile::sync() {
  if (retried([&] { return ::fdatasync(descriptor_); }) != 0) {
    judge_failed_sync(path_, MountAbility::kFileSync);
  }
}

void publish_file(const std::string& temporary, const std::string& path,
                  const std::function<void(const std::string&)>& verify) {
  sync_path(temporary);
  if (verify) verify(temporary);
  move_into_place(temporary, path);
  sync_path(parent_of(path));
}

void recover_file(const std::string& path) {
  if (!path_exists(path) && path_exists(aside(path))) renamed(aside(path), path);
}

std::uint64_t deliver_file(const std::string& source, const std::string& path) {
  require_space(parent_of(path), static_cast<double>(file_size_bytes(source)), "--output");
  AtomicFile file(path);
  Hasher hasher;
  read_pieces(source, [&](std::string_view piece) {
    hasher.update(piece.data(), piece.size());
    file.write(piece);
  });
  const std::uint64_t hash = hasher.digest();
  file.commit([&](const std::string& temporary) {
    {  // Read what the mount holds, not what the machine has cached.
      const Descriptor cached(temporary, O_RDONLY);
      if (cached.get() >= 0) ::posix_fadvise(cached.get(), 0, 0, POSIX_FADV_DONTNEED);
    }
    if (xxh3_file(temporary) == hash) return;
    throw Error(ErrorKind::kIo, cat(path, ": reads back differently from what was written"),
                "the disk or mount is damaged; choose another --output");
  });
  return hash;
}

void write_file_atomically(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit([&](const std::string& temporary) {
    if (read_file(temporary) != bytes) {
      throw Error(ErrorKind::kIo, cat(path, ": reads back differently from what was written"),
                  "the disk or mount is damaged; choose another --output");
    }
  });
}

namespace {

// Opens and locks `lock_path`, which guards `output`. Returns the descriptor.
int lock_output(const std::string& lock_path, const std::string& output) {
  const int descriptor =
      retried([&] { return ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666); });
  if (descriptor < 0) {
    throw Error(ErrorKind::kCannotCreate, cat(output, ": cannot be written (", reason(), ")"),
                "choose another --output or fix its permissions");
  }
  if (retried([&] { return ::flock(descriptor, LOCK_EX | LOCK_NB); }) == 0) return descriptor;
  if (errno == EWOULDBLOCK) {
    ::close(descriptor);
    throw Error(ErrorKind::kConfig, cat(output, ": another process is writing here"),
                "wait for it to end, or choose another --output");
  }
  warn_unsupported(MountAbility::kLocks, output, errno);
  return descriptor;
}

int lock_present_file(const std::string& lock_path, const std::string& output) {
  constexpr int kAttempts = 100;  // after that, a mount whose inode numbers change is trusted
  for (int attempt = 0;; ++attempt) {
    const int descriptor = lock_output(lock_path, output);
    // Not where the previous holder has just removed the file that is now locked.
    if (attempt == kAttempts || is_name_of(lock_path, descriptor)) return descriptor;
    ::close(descriptor);
  }
}

}  // namespace

FolderLock::FolderLock(const std::string& folder)
    : descriptor_(lock_present_file(folder + "/.lock", folder)) {}

FolderLock::~FolderLock() {
  ::close(descriptor_);
}

FileLock::FileLock(const std::string& path)
    : lock_path_(path + ".lock"), descriptor_(lock_present_file(lock_path_, path)) {}

FileLock::~FileLock() {
  remove_file(lock_path_);
  ::close(descriptor_);
}

}  // namespace retina
