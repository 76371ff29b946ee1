#include "shared/base/output.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/mount.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMarkBytes = 1024;  // read from a file to recognise its writer

// Opens and locks `lock_path`, which guards `output`.
Descriptor lock_output(const std::string& lock_path, const std::string& output) {
  Descriptor lock(lock_path, O_RDWR | O_CREAT);
  if (!lock) {
    throw Error(ErrorKind::kCannotCreate,
                cat(output, ": cannot be written (", std::strerror(errno), ")"),
                "choose another --output or fix its permissions");
  }
  if (retried([&] { return ::flock(lock.get(), LOCK_EX | LOCK_NB); }) == 0) return lock;
  if (errno == EWOULDBLOCK) {
    throw Error(ErrorKind::kConfig, cat(output, ": another process is writing here"),
                "wait for it to end, or choose another --output");
  }
  warn_unsupported(MountAbility::kLocks, output, errno);
  return lock;
}

Descriptor lock_present_file(const std::string& lock_path, const std::string& output) {
  constexpr int kAttempts = 100;  // after that, a mount whose inode numbers change is trusted
  for (int attempt = 0;; ++attempt) {
    Descriptor lock = lock_output(lock_path, output);
    // Tries again if the previous holder has just removed the file that is now locked.
    if (attempt == kAttempts || is_name_of(lock_path, lock.get())) return lock;
  }
}

}  // namespace

FolderLock::FolderLock(const std::string& folder)
    : lock_(lock_present_file(folder + "/.lock", folder)) {}

FileLock::FileLock(const std::string& path)
    : lock_path_(path + ".lock"), lock_(lock_present_file(lock_path_, path)) {}

FileLock::~FileLock() {
  remove_file(lock_path_);
}

bool is_name_of(const std::string& path, int descriptor) {
  struct stat there {
  }, open_file{};
  return ::stat(path.c_str(), &there) == 0 && ::fstat(descriptor, &open_file) == 0 &&
         there.st_dev == open_file.st_dev && there.st_ino == open_file.st_ino;
}

std::string differences(const SettingValues& before, const SettingValues& now) {
  SettingValues all = before;
  all.insert(now.begin(), now.end());
  const auto value_in = [](const SettingValues& settings, const std::string& name) {
    const auto found = settings.find(name);
    if (found == settings.end()) return std::string("unset");
    return found->second == "null" ? std::string("the default") : found->second;
  };
  std::string text;
  for (const auto& [name, unused] : all) {
    const std::string was = value_in(before, name), is = value_in(now, name);
    if (was != is) text += cat(text.empty() ? "" : ", ", name, " (was ", was, ", now ", is, ")");
  }
  return text;
}

Error not_ours_to_replace(const std::string& path, const std::string& problem,
                          const std::string& option) {
  return {ErrorKind::kCannotCreate,
          cat(path, ": exists and is not ours to replace", problem.empty() ? "" : ": ", problem),
          cat("choose another ", option, ", or move the file away")};
}

bool has_file(const std::string& path, const std::string& option) {
  if (path.ends_with('/')) {
    throw Error(ErrorKind::kCannotCreate, cat(path, ": is the name of a folder (want a file)"),
                cat("choose another ", option));
  }
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return false;  // free, or writing reports why
  if (S_ISDIR(status.st_mode)) {
    throw Error(ErrorKind::kCannotCreate, cat(path, ": is a folder (want a file)"),
                cat("choose another ", option));
  }
  if (!S_ISREG(status.st_mode)) throw not_ours_to_replace(path, "", option);
  return status.st_size > 0;
}

void check_may_replace(const std::string& path, std::string_view mark, const std::string& option) {
  if (!has_file(path, option)) return;
  if (read_start(path, kMarkBytes).find(mark) != std::string::npos) return;
  throw not_ours_to_replace(path, "", option);
}

Scratch::Scratch(const std::string& folder, const std::string& output) {
  if (folder.empty()) return;
  place_ = cat(folder, "/retina-", hex64(xxh3(fs::weakly_canonical(output).string())));
  std::error_code ignored;
  fs::remove_all(place_, ignored);
  make_folder(place_, "--scratch");
}

Scratch::~Scratch() {
  if (place_.empty()) return;
  std::error_code ignored;
  fs::remove_all(place_, ignored);
}

std::string Scratch::build_path(const std::string& path) const {
  if (place_.empty()) return path;
  return place_ + "/" + fs::path(path).filename().string();
}

std::string default_scratch() {
  std::error_code code;
  const fs::path folder = fs::temp_directory_path(code);
  return code || ::access(folder.c_str(), W_OK | X_OK) != 0 ? "/tmp" : folder.string();
}

}  // namespace retina
