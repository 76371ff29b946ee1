#include "shared/shard/shard_copies.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/log.h"
#include "shared/base/output.h"
#include "shared/base/signals.h"
#include "shared/shard/damaged.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

constexpr int kTries = 4;
constexpr std::chrono::milliseconds kFirstPause{500};  // each is twice as long as the one before
constexpr std::chrono::milliseconds kLook{50};         // for a copy by another process or thread
constexpr int kLooksBeforeWarning = 1200;
constexpr int kMostLooks = 100;  // after that, a disk whose inode numbers change is trusted
constexpr const char* kFolderStart = "retina-shards-";
constexpr const char* kScratchHint = "free some space, or choose another --scratch";

// Calls flock; returns 0 or an errno.
int locked(const Descriptor& file, int operation) {
  return retried([&] { return ::flock(file.get(), operation); }) == 0 ? 0 : errno;
}

// Runs `body`; its errors count as the scratch disk's.
template <class Body>
void on_scratch(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    throw ScratchError(error.kind(), error.what(), error.hint());
  }
}

[[noreturn]] void fail_to_copy(const std::string& folder) {
  throw ScratchError(ErrorKind::kIo,
                     cat(folder, ": copying a shard here failed (", std::strerror(errno), ")"),
                     kScratchHint);
}

MappedFile mapped(int descriptor, std::uint64_t size_bytes, const std::string& path) {
  MappedFile file(descriptor, size_bytes);
  on_scratch([&] {
    if (file.problem() != 0) fail_to_map(path, file.problem());
  });
  return file;
}

// Returns true if this user owns the folder: one of that name may be anybody's, in /tmp at least.
bool is_own_folder(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == ::geteuid();
}

std::vector<fs::path> entries_of(const std::string& folder) {
  std::vector<fs::path> paths;
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    paths.push_back(at->path());
  }
  return paths;
}

bool is_copy(const fs::path& path) {
  return name_matches(path.filename().string(),
                      "(shard-[0-9]+(-of-[0-9]+)?\\.lmdb|index\\.bin)(\\.tmp)?");
}

// Removes everything that ShardCopies made in the folder; the folder too, unless it holds other
// files.
void remove_copies(const std::string& folder) {
  for (const fs::path& path : entries_of(folder)) {
    if (is_copy(path)) remove_file(path.string());
  }
  remove_file(folder + "/.lock");
  ::rmdir(folder.c_str());
}

// Removes leftovers of killed jobs for other sets.
void remove_leftovers(const std::string& scratch, const std::string& own) {
  for (const fs::path& path : entries_of(scratch)) {
    const std::string folder = path.string();
    const bool is_ours = path.filename().string().starts_with(kFolderStart);
    if (!is_ours || folder == own || !is_own_folder(folder)) continue;
    const Descriptor lock(folder + "/.lock", O_RDWR);
    if (!lock) {
      ::rmdir(folder.c_str());  // killed before it had a lock
    } else if (locked(lock, LOCK_EX | LOCK_NB) == 0 && is_name_of(folder + "/.lock", lock.get())) {
      remove_copies(folder);  // and not of one that began meanwhile
    }
  }
}

std::stop_token stop_of(const CopyAhead* ahead) {
  return ahead != nullptr ? ahead->stop : std::stop_token{};
}

// The folders in use by objects of this process.
struct Folders {
  std::mutex mutex{};
  std::multiset<std::string> joined{};
};
Folders& folders() {
  static Folders all;
  return all;
}

std::string id_of(const std::vector<ManifestShard>& shards) {
  std::string hashes;
  for (const ManifestShard& shard : shards) {
    hashes += cat(shard.file.name, " ", hex64(shard.file.xxh3), "\n");
  }
  return hex64(xxh3(hashes));
}

}  // namespace

ShardCopies::ShardCopies(std::string source_folder, const std::vector<ManifestShard>& shards,
                         std::string scratch, ReadSource read_source)
    : source_folder_(std::move(source_folder)),
      scratch_(scratch.empty() ? default_scratch() : std::move(scratch)),
      id_(id_of(shards)),
      read_source_(std::move(read_source)) {}

ShardCopies::ShardCopies(const RemoteFolder& source, const std::vector<ManifestShard>& shards,
                         std::string scratch)
    : source_folder_(source.name()),
      scratch_(scratch.empty() ? default_scratch() : std::move(scratch)),
      id_(id_of(shards)),
      remote_(&source) {}

ShardCopies::~ShardCopies() {
  if (folder_.empty()) return;
  {
    const std::lock_guard lock(folders().mutex);
    folders().joined.erase(folders().joined.find(folder_));
  }
  // The next start continues from them after an early end.
  if (remote_ != nullptr && (std::uncaught_exceptions() > 0 || stop_signal() != 0)) return;
  // Without locks the folder is this process's own.
  if (locked(lock_, LOCK_EX | LOCK_NB) != EWOULDBLOCK) remove_copies(folder_);
}

ShardCopy ShardCopies::copy(const ManifestShard& shard, const CopyAhead* ahead) {
  open_folder();
  std::optional<std::uint64_t> wrong;
  std::chrono::milliseconds wait = kFirstPause;
  for (int tries = 1;; ++tries, wait *= 2) {
    try {
      ShardCopy result = try_copy(shard, ahead);
      // The same wrong bytes twice come from the file, not from their transport.
      if (result.state != CopyState::kDamaged || wrong == result.xxh3) return result;
      if (tries == kTries) {
        if (remote_ == nullptr) return result;
        throw Error(ErrorKind::kIo,
                    cat(source_folder_, "/", shard.file.name, ": came ", kTries,
                        " times with as many wrong checksums"),
                    "check the network and its proxies, then run the same command again");
      }
      wrong = result.xxh3;
    } catch (const ScratchError&) {
      throw;
    } catch (const Error& error) {
      const bool is_sure =
          error.kind() == ErrorKind::kData || error.kind() == ErrorKind::kInterrupted;
      if (tries == kTries || remote_ != nullptr || is_sure) throw;
      log_debug(error.what(), "; trying again");
    }
    pause(wait, stop_of(ahead));
    check_stop(path_of(shard), stop_of(ahead));
  }
}

ShardCopy ShardCopies::try_copy(const ManifestShard& shard, const CopyAhead* ahead) {
  const std::string temporary = path_of(shard) + ".tmp";
  std::mutex& copying = [&]() -> std::mutex& {
    const std::lock_guard lock(mutex_);
    return copying_[shard.file.name];
  }();
  int renamed = 0;
  for (int looks = 1;; ++looks, std::this_thread::sleep_for(kLook)) {
    if (std::optional<MappedFile> file = find(shard)) return {.file = std::move(*file)};
    // Between the threads of a process the mutex decides who copies, between processes the lock on
    // the file.
    const std::unique_lock own(copying, std::try_to_lock);
    if (own) {
      const Descriptor file(
          retried([&] { return ::open(temporary.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600); }));
      if (!file) fail_to_copy(folder_);
      if (locked(file, LOCK_EX | LOCK_NB) != EWOULDBLOCK) {
        // Its writer may have renamed it a moment ago, and another process may have written the
        // copy meanwhile.
        if (!is_name_of(temporary, file.get()) && ++renamed < kMostLooks) continue;
        try {
          if (std::optional<MappedFile> found = find(shard)) {
            remove_file(temporary);
            return {.file = std::move(*found)};
          }
          return write_copy(shard, file.get(), ahead);
        } catch (...) {
          remove_file(temporary);
          throw;
        }
      }
    }
    if (ahead != nullptr) return {.state = CopyState::kBusy};
    check_stop(temporary);
    if (looks == kLooksBeforeWarning) {
      log_warning(temporary, ": has been copied by another process for a minute, waiting for it");
    }
  }
}

ShardCopy ShardCopies::write_copy(const ManifestShard& shard, int temporary,
                                  const CopyAhead* ahead) const {
  const std::string path = path_of(shard);
  // The file gets its full size at once: other processes count it under the limit.
  const std::uint64_t size_bytes = shard.file.size_bytes;
  if (::ftruncate(temporary, 0) != 0 ||
      ::ftruncate(temporary, static_cast<off_t>(size_bytes)) != 0) {
    fail_to_copy(folder_);
  }
  if (ahead != nullptr && copied_bytes().full > ahead->limit_bytes) {
    remove_file(path + ".tmp");
    return {.state = CopyState::kBeyondLimit};
  }
  on_scratch([&] { require_space(folder_, static_cast<double>(size_bytes), "--scratch"); });
  fill(shard, temporary, ahead);
  ShardCopy result{.file = mapped(temporary, size_bytes, path)};
  result.xxh3 = xxh3_file(path + ".tmp");  // read back: what was written, not what was read
  if (result.xxh3 != shard.file.xxh3) {
    result.state = CopyState::kDamaged;
    remove_file(path + ".tmp");
    return result;
  }
  remove_file(path);  // a damaged copy
  std::error_code code;
  fs::rename(path + ".tmp", path, code);
  if (code) {
    errno = code.value();
    fail_to_copy(folder_);
  }
  return result;
}

void ShardCopies::fill(const ManifestShard& shard, int temporary, const CopyAhead* ahead) const {
  const std::uint64_t size_bytes = shard.file.size_bytes;
  if (remote_ != nullptr) {
    try {
      return remote_->download(
          {.file = shard.file.name, .size_bytes = size_bytes, .descriptor = temporary},
          stop_of(ahead));
    } catch (const std::system_error& error) {
      errno = error.code().value();
      fail_to_copy(folder_);
    }
  }
  const std::string source = source_folder_ + "/" + shard.file.name;
  std::uint64_t got_bytes = 0;
  read_source_(source, [&](std::string_view bytes) {
    check_stop(source, stop_of(ahead));
    got_bytes += bytes.size();
    if (got_bytes <= size_bytes && !write_all(temporary, bytes)) fail_to_copy(folder_);
  });
  if (got_bytes != size_bytes) fail_damaged(source, "changed its size");
}

// Returns the present copy, if it is intact.
std::optional<MappedFile> ShardCopies::find(const ManifestShard& shard) const {
  const Descriptor file(path_of(shard), O_RDONLY);
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 ||
      static_cast<std::uint64_t>(status.st_size) != shard.file.size_bytes) {
    return std::nullopt;
  }
  try {
    if (xxh3_file(cat("/proc/self/fd/", file.get())) != shard.file.xxh3) return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;  // the disk fails to read it back
  }
  return mapped(file.get(), shard.file.size_bytes, path_of(shard));
}

void ShardCopies::open_folder() {
  const std::lock_guard lock(mutex_);
  if (!folder_.empty()) return;
  on_scratch([&] { make_folder(scratch_, "--scratch"); });
  const std::string shared = cat(scratch_, "/", kFolderStart, id_);
  if (!join(shared)) {
    std::string own = shared + "-XXXXXX";
    if (::mkdtemp(own.data()) == nullptr) {
      throw ScratchError(ErrorKind::kCannotCreate,
                         cat(scratch_, ": cannot be written (", std::strerror(errno), ")"),
                         "choose another --scratch or fix its permissions");
    }
    if (!join(own)) {  // no locks on this disk
      ::mkdir(own.c_str(), 0700);
      lock_ = Descriptor(own + "/.lock", O_RDWR | O_CREAT);
      folder_ = own;
    }
  }
  {
    const std::lock_guard folders_lock(folders().mutex);
    folders().joined.insert(folder_);
  }
  remove_leftovers(scratch_, folder_);
}

bool ShardCopies::is_left(const ManifestShard& shard) const {
  const std::lock_guard lock(mutex_);
  return left_.contains(shard.file.name);
}

void ShardCopies::remove(const ManifestShard& shard) {
  remove_file(path_of(shard));
  const std::lock_guard lock(mutex_);
  left_.erase(shard.file.name);
}

// Joins the users of a folder; returns false if it cannot be shared.
bool ShardCopies::join(const std::string& folder) {
  for (int looks = 0; looks < kMostLooks; ++looks) {
    ::mkdir(folder.c_str(), 0700);  // private, since the set may be
    if (!is_own_folder(folder)) return false;
    Descriptor lock(folder + "/.lock", O_RDWR | O_CREAT);
    if (!lock && errno == ENOENT) continue;  // its last user has just removed it
    if (!lock) return false;
    left_.clear();
    if (locked(lock, LOCK_EX | LOCK_NB) == 0) {
      for (const fs::path& path : entries_of(folder)) left_.insert(path.filename().string());
    }
    if (locked(lock, LOCK_SH) != 0) {
      remove_file(folder + "/.lock");
      ::rmdir(folder.c_str());
      return false;
    }
    if (!is_name_of(folder + "/.lock", lock.get())) continue;
    lock_ = std::move(lock);
    folder_ = folder;
    return true;
  }
  return false;
}

ShardCopies::Bytes ShardCopies::copied_bytes() {
  Bytes sum;
  const std::lock_guard lock(folders().mutex);
  const std::multiset<std::string>& all = folders().joined;
  for (auto at = all.begin(); at != all.end(); at = all.upper_bound(*at)) {
    for (const fs::path& path : entries_of(*at)) {
      struct stat status {};
      if (!is_copy(path) || ::lstat(path.c_str(), &status) != 0) continue;
      sum.full += static_cast<std::uint64_t>(status.st_size);
      sum.on_disk += static_cast<std::uint64_t>(status.st_blocks) * 512;
    }
  }
  return sum;
}

}  // namespace retina
