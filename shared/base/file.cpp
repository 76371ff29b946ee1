#include "shared/base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/log.h"

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

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

std::string read_file(const std::string& path) {
  const Descriptor file(path, O_RDONLY);
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) {
    throw Error(ErrorKind::kNoInput, cat(path, ": cannot be read (", reason(), ")"),
                "check the path and its permissions");
  }
  if (S_ISDIR(status.st_mode)) {
    throw Error(ErrorKind::kNoInput, cat(path, ": is a folder (want a file)"));
  }
  std::string bytes;
  bytes.reserve(static_cast<std::size_t>(status.st_size) + 1);
  std::string chunk(1 << 20, '\0');
  for (;;) {
    const ssize_t got = ::read(file.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(ErrorKind::kIo, cat(path, ": reading failed (", reason(), ")"));
    if (got == 0) return bytes;
    bytes.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

std::uint64_t file_size_bytes(const std::string& path) {
  std::error_code code;
  const auto size = fs::file_size(path, code);
  if (code) throw Error(ErrorKind::kNoInput, cat(path, ": cannot be read (", code.message(), ")"));
  return size;
}

bool path_exists(const std::string& path) {
  std::error_code code;
  return fs::exists(path, code);
}

bool is_folder(const std::string& path) {
  std::error_code code;
  return fs::is_directory(path, code);
}

void make_folder(const std::string& path) {
  std::error_code code;
  fs::create_directories(path, code);
  if (code || !is_folder(path)) {
    throw Error(ErrorKind::kCannotCreate,
                cat(path, ": cannot create the folder (",
                    code ? code.message() : std::string("a file has this name"), ")"),
                "choose another --output or mend its permissions");
  }
}

std::uint64_t free_space_bytes(const std::string& path) {
  struct statvfs status {};
  if (::statvfs(path.c_str(), &status) != 0) return 0;
  return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
}

void remove_file(const std::string& path) {
  std::error_code code;
  fs::remove(path, code);
}

void sync_path(const std::string& path) {
  const bool folder = is_folder(path);
  const Descriptor file(path, folder ? O_RDONLY | O_DIRECTORY : O_RDONLY);
  if (file.get() >= 0 && ::fsync(file.get()) == 0) return;
  if (folder) return;  // many network mounts have no fsync for folders
  throw Error(ErrorKind::kIo, cat(path, ": writing to the disk failed (", reason(), ")"));
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), temporary_(path_ + ".tmp") {
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
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
  const auto* bytes = static_cast<const char*>(data);
  while (size_bytes > 0) {
    const ssize_t wrote = ::write(descriptor_, bytes, size_bytes);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      throw Error(ErrorKind::kIo, cat(path_, ": writing failed (", reason(), ")"),
                  "free some space or mend the mount, then run the same command again");
    }
    bytes += wrote;
    size_bytes -= static_cast<std::size_t>(wrote);
  }
}

void AtomicFile::close_file() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (descriptor >= 0 && ::close(descriptor) != 0) {
    throw Error(ErrorKind::kIo, cat(path_, ": closing failed (", reason(), ")"),
                "free some space or mend the mount, then run the same command again");
  }
}

void AtomicFile::commit(const std::function<void(const std::string&)>& verify) {
  close_file();
  publish_file(temporary_, path_, verify);
  committed_ = true;
}

void publish_file(const std::string& temporary, const std::string& path,
                  const std::function<void(const std::string&)>& verify) {
  sync_path(temporary);
  if (verify) verify(temporary);
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    throw Error(ErrorKind::kIo, cat(path, ": cannot be renamed into place (", reason(), ")"));
  }
  sync_path(parent_of(path));
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

FolderLock::FolderLock(const std::string& folder) {
  const std::string path = folder + "/.lock";
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    throw Error(ErrorKind::kCannotCreate, cat(folder, ": cannot be written (", reason(), ")"),
                "choose another --output or mend its permissions");
  }
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK) {
    ::close(std::exchange(descriptor_, -1));
    throw Error(ErrorKind::kConfig, cat(folder, ": another process is writing to this folder"),
                "wait for it to end, or choose another --output");
  }
  log_warning(folder, ": this file system has no locks (", reason(),
              "); do not start two jobs on this folder");
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace retina
