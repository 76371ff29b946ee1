#include "shared/base/file.h"

#include <linux/magic.h>
#include <regex.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

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

constexpr const char* kDenied = ": may not be read (";
constexpr const char* kMountHint = "fix the mount, then run the same command again";
constexpr const char* kWriteHint =
    "free some space or fix the mount, then run the same command again";

// Handles an fsync that returned -1: warns once if the file system lacks it, throws kIo otherwise.
void check_failed_sync(const std::string& path, MountAbility ability) {
  const int code = errno;
  if (!means_unsupported(code)) {
    throw Error(ErrorKind::kIo, cat(path, ": writing to the disk failed (", reason(), ")"),
                kWriteHint);
  }
  warn_unsupported(ability, path, code);
}

void write_to(const Descriptor& file, const std::string& path, std::string_view bytes) {
  if (write_all(file.get(), bytes)) return;
  throw Error(ErrorKind::kIo, cat(path, ": writing failed (", reason(), ")"), kWriteHint);
}

Error cannot_create(const std::string& path, const std::string& hint) {
  return {ErrorKind::kCannotCreate, cat(path, ": cannot be created (", reason(), ")"), hint};
}

void check_read_back(bool is_equal, const std::string& path) {
  if (is_equal) return;
  throw Error(ErrorKind::kIo, cat(path, ": reads back differently from what was written"),
              "the disk or mount is damaged; choose another --output");
}

int renamed(const std::string& from, const std::string& to) {
  return retried([&] { return std::rename(from.c_str(), to.c_str()); });
}

std::string aside(const std::string& path) {
  return path + ".old";
}

// Works around SMB, which does not rename over a file (or over one that a virus scanner has open):
// moves the old one aside first.
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

// Verifies the file and moves it into its place. A file written a moment ago that cannot be found
// is not a missing input: the mount is gone.
void publish_synced(const std::string& temporary, const std::string& path,
                    const std::function<void(const std::string&)>& verify) {
  try {
    if (verify) verify(temporary);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNoInput) throw;
    throw Error(ErrorKind::kIo, error.what(), kMountHint);
  }
  move_into_place(temporary, path);
  sync_path(parent_of(path));
}

// Returns what `mode` says the path is instead of a regular file; nullptr for a regular file.
const char* other_than_file(mode_t mode) {
  if (S_ISREG(mode)) return nullptr;
  if (S_ISDIR(mode)) return "is a folder (want a file)";
  if (S_ISFIFO(mode)) return "is a pipe (want a regular file)";
  return "is a device or socket (want a regular file)";
}

// Returns true for files that the kernel generates while they are read: some wait for events, some
// have no end.
bool is_of_kernel(int descriptor) {
  struct statfs system {};
  if (::fstatfs(descriptor, &system) != 0) return false;
  const auto type = static_cast<unsigned long>(system.f_type);
  return type == PROC_SUPER_MAGIC || type == SYSFS_MAGIC || type == DEBUGFS_MAGIC ||
         type == TRACEFS_MAGIC;
}

Error not_a_file(const std::string& path, const std::string& problem) {
  return {ErrorKind::kNoInput, cat(path, ": ", problem),
          "give the path of a file; what a command prints can be written to one"};
}

// Opens without waiting, since opening a pipe would wait for its writer. A regular file gives
// EWOULDBLOCK only while somebody holds a lease on it (Samba); opening it again, with waiting, ends
// the lease.
Descriptor open_input(const std::string& path) {
  Descriptor file(path, O_RDONLY | O_NOCTTY | O_NONBLOCK);
  if (file || errno != EWOULDBLOCK) return file;
  return Descriptor(path, O_RDONLY | O_NOCTTY);
}

std::uint64_t memory_bytes() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// Calls `read_more(bytes read so far)` until `size_bytes` are read, or the file ends.
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

// Returns the whole content; throws Error{kind}, "PATH: PROBLEM", if it has more than `max_bytes`.
std::string read_whole(const std::string& path, std::uint64_t max_bytes, ErrorKind kind,
                       const char* problem) {
  const auto check_size = [&](std::uint64_t got) {
    if (got <= max_bytes) return;
    throw Error(kind,
                cat(path, ": ", problem, " (got ", human_bytes(static_cast<double>(got)),
                    ", want at most ", human_bytes(static_cast<double>(max_bytes)), ")"),
                "check that this is the file you mean");
  };
  FileReader file(path);
  check_size(file.size_bytes());
  std::string bytes(file.size_bytes(), '\0');
  bytes.resize(file.read(bytes.data(), bytes.size()));
  // Picks up what lies beyond the reported size: the file grows, or its file system reports no
  // sizes.
  std::array<char, 4096> more;
  while (const std::size_t got = file.read(more.data(), more.size())) {
    bytes.append(more.data(), got);
    check_size(bytes.size());
  }
  return bytes;
}

}  // namespace

Error read_error(const std::string& path, int code) {
  if (code == EACCES || code == EPERM) {
    return {ErrorKind::kNoInput, cat(path, kDenied, std::strerror(code), ")"),
            cat("this job runs as user ", ::geteuid(), ", group ", ::getegid(),
                ": let them read the file and enter its folders")};
  }
  const std::string problem = cat(path, ": cannot be read (", std::strerror(code), ")");
  const auto is_one_of = [&](std::initializer_list<int> codes) {
    return std::find(codes.begin(), codes.end(), code) != codes.end();
  };
  if (is_one_of({ENOENT, ENOTDIR, ENAMETOOLONG, ELOOP, ENXIO, EISDIR, EOPNOTSUPP})) {
    return {ErrorKind::kNoInput, problem, "check the path"};
  }
  if (is_one_of({EMFILE, ENFILE, ENOMEM})) {
    return {ErrorKind::kUnavailable, problem, "raise `ulimit -n`, or free memory"};
  }
  return {ErrorKind::kIo, problem, kMountHint};
}

bool is_denied(const Error& error) {
  return std::strstr(error.what(), kDenied) != nullptr;
}

bool means_no_file(int code) {
  return code == ENOENT || code == ENOTDIR || code == ENAMETOOLONG || code == ELOOP;
}

void require_folder(const std::string& path, const std::string& hint) {
  struct stat status {};
  // The dot makes stat() check that the folder may be entered.
  if (retried([&] { return ::stat((path + "/.").c_str(), &status); }) == 0) return;
  if (!means_no_file(errno)) throw read_error(path, errno);
  throw Error(ErrorKind::kNoInput,
              cat(path, errno == ENOTDIR ? ": is not a folder" : ": does not exist"), hint);
}

FileReader::FileReader(const std::string& path) : path_(path), file_(open_input(path)) {
  struct stat status {};
  if (!file_ || ::fstat(file_.get(), &status) != 0) throw read_error(path, errno);
  if (const char* problem = other_than_file(status.st_mode)) throw not_a_file(path, problem);
  if (status.st_size == 0 && is_of_kernel(file_.get())) {
    throw not_a_file(path, "is a file of the kernel (want one on a disk)");
  }
  ::fcntl(file_.get(), F_SETFL, ::fcntl(file_.get(), F_GETFL) & ~O_NONBLOCK);
  size_bytes_ = static_cast<std::size_t>(std::max<off_t>(0, status.st_size));
}

std::size_t FileReader::read(char* buffer, std::size_t size_bytes) {
  return read_all(path_, size_bytes, [&](std::size_t done) {
    return ::read(file_.get(), buffer + done, size_bytes - done);
  });
}

std::size_t FileReader::read_at(std::uint64_t offset_bytes, char* buffer,
                                std::size_t size_bytes) const {
  return read_all(path_, size_bytes, [&](std::size_t done) {
    return ::pread(file_.get(), buffer + done, size_bytes - done,
                   static_cast<off_t>(offset_bytes + done));
  });
}

void FileReader::seek(std::uint64_t offset_bytes) {
  if (::lseek(file_.get(), static_cast<off_t>(offset_bytes), SEEK_SET) >= 0) return;
  throw Error(ErrorKind::kIo, cat(path_, ": seeking failed (", reason(), ")"), kMountHint);
}

void read_pieces(const std::string& path, const std::function<void(std::string_view)>& take) {
  FileReader file(path);
  // A small file is read in one small piece: a photograph is not worth zeroing a megabyte.
  constexpr std::size_t kSmallest = 64 << 10, kLargest = 1 << 20;
  const std::size_t size = std::clamp(file.size_bytes(), kSmallest, kLargest);
  const auto piece = std::make_unique_for_overwrite<char[]>(size);
  while (const std::size_t got = file.read(piece.get(), size)) take({piece.get(), got});
}

std::string read_start(const std::string& path, std::size_t max_bytes) {
  return read_part(path, 0, max_bytes);
}

std::string read_part(const std::string& path, std::uint64_t offset_bytes, std::size_t max_bytes) {
  FileReader file(path);
  file.seek(offset_bytes);
  std::string bytes(max_bytes, '\0');
  bytes.resize(file.read(bytes.data(), max_bytes));
  return bytes;
}

std::string read_file(const std::string& path) {
  return read_whole(path, memory_bytes(), ErrorKind::kUnavailable,
                    "is larger than this machine's memory");
}

std::string read_text(const std::string& path, std::uint64_t max_bytes) {
  return read_whole(path, max_bytes, ErrorKind::kData, "is too large to be this kind of text");
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
  // A zero byte from a damaged file would hide the rest of the name.
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
  std::error_code code, ignored;
  std::vector<std::string> parents;  // of the new folders
  for (std::string at = path; !fs::exists(at, ignored); at = parents.back()) {
    parents.push_back(parent_of(at));
    if (parents.back() == at) break;
  }
  fs::create_directories(path, code);
  if (code || !is_folder(path)) {
    throw Error(ErrorKind::kCannotCreate,
                cat(path, ": cannot create the folder (",
                    code ? code.message() : std::string("a file has this name"), ")"),
                cat("choose another ", option, " or fix its permissions"));
  }
  for (const std::string& parent : parents) sync_path(parent);
}

void check_can_be_folder(const std::string& path, const std::string& option) {
  fs::path there = fs::absolute(path);
  while (!fs::exists(fs::symlink_status(there)) && there.has_relative_path()) {
    there = there.parent_path();
  }
  if (is_folder(there.string())) return;
  throw Error(ErrorKind::kCannotCreate,
              cat(path, ": cannot create the folder (", there.string(), " is not a folder)"),
              cat("choose another ", option));
}

void make_folder_of(const std::string& path, const std::string& option) {
  make_folder(parent_of(path), option);
}

std::optional<std::uint64_t> free_space_bytes(const std::string& path) {
  std::error_code code;
  const fs::space_info space = fs::space(path, code);
  // Mounts that do not know their size report none at all.
  return code || space.capacity == 0 ? std::nullopt : std::optional(space.available);
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

void sync_path(const std::string& path) {
  const bool folder = is_folder(path);
  const auto ability = folder ? MountAbility::kFolderSync : MountAbility::kFileSync;
  const Descriptor file(path, folder ? O_RDONLY | O_DIRECTORY : O_RDONLY);
  if (folder && file.get() < 0) {  // a folder that may be written but not read
    warn_unsupported(ability, path, errno);
    return;
  }
  if (file.get() < 0 || retried([&] { return ::fsync(file.get()); }) != 0) {
    check_failed_sync(path, ability);
  }
}

AtomicFile::AtomicFile(std::string path)
    : path_(std::move(path)),
      temporary_(path_ + ".tmp"),
      file_(temporary_, O_WRONLY | O_CREAT | O_TRUNC) {
  if (!file_) throw cannot_create(path_, "check that the folder exists and can be written");
}

AtomicFile::~AtomicFile() {
  if (committed_) return;
  file_ = Descriptor();  // closed first: FUSE and NFS keep an open file under another name
  remove_file(temporary_);
}

void AtomicFile::write(const void* data, std::size_t size_bytes) {
  write_to(file_, path_, {static_cast<const char*>(data), size_bytes});
}

// Syncs through the descriptor that wrote: a later one may miss write-back errors.
void AtomicFile::sync_and_close() {
  const int descriptor = file_.release();
  if (descriptor < 0) return;
  const bool synced = retried([&] { return ::fsync(descriptor); }) == 0;
  const int sync_code = errno;
  // An interrupted close() has closed the file.
  const bool closed = ::close(descriptor) == 0 || errno == EINTR;
  if (!closed) {
    throw Error(ErrorKind::kIo, cat(path_, ": closing failed (", reason(), ")"), kWriteHint);
  }
  errno = sync_code;
  if (!synced) check_failed_sync(path_, MountAbility::kFileSync);
}

void AtomicFile::commit(const std::function<void(const std::string&)>& verify) {
  sync_and_close();
  publish_synced(temporary_, path_, verify);
  committed_ = true;
}

AppendFile::AppendFile(std::string path, const std::string& option)
    : path_(std::move(path)), file_(path_, O_WRONLY | O_CREAT | O_APPEND) {
  if (!file_) throw cannot_create(path_, cat("choose another ", option, " or fix its permissions"));
}

void AppendFile::append(std::string_view bytes) {
  write_to(file_, path_, bytes);
}

void AppendFile::sync() {
  if (retried([&] { return ::fdatasync(file_.get()); }) != 0) {
    check_failed_sync(path_, MountAbility::kFileSync);
  }
}

void publish_file(const std::string& temporary, const std::string& path,
                  const std::function<void(const std::string&)>& verify) {
  sync_path(temporary);
  publish_synced(temporary, path, verify);
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
    check_read_back(xxh3_file(temporary) == hash, path);
  });
  return hash;
}

void write_file_atomically(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit(
      [&](const std::string& temporary) { check_read_back(read_file(temporary) == bytes, path); });
}

}  // namespace retina
