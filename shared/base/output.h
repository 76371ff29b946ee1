// The output of a command: who writes it now, which settings an earlier command made it with,
// whether it may be replaced, and where it is built.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "shared/base/descriptor.h"
#include "shared/base/error.h"

namespace retina {

// An exclusive lock on the folder for this process's lifetime (flock on `.lock` inside). Throws
// kConfig when another process holds it, kCannotCreate; a file system without locks costs one
// warning.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);

 private:
  Descriptor lock_;
};

// The same for an output that is one file (flock on `path.lock`, which is removed at the end).
class FileLock {
 public:
  explicit FileLock(const std::string& path);
  ~FileLock();
  FileLock(FileLock&&) = delete;

 private:
  std::string lock_path_;
  Descriptor lock_;
};

// Whether `path` is still a name of the open file: another process may have renamed or removed it
// before this one had its lock.
bool is_name_of(const std::string& path, int descriptor);

// Settings, name -> value, as shown to a user.
using SettingValues = std::map<std::string, std::string>;

// How two sets of settings differ: "lr (was 0.01, now 0.02), seed (was 1, now unset)"; empty when
// nothing differs.
std::string differences(const SettingValues& before, const SettingValues& now);

// Which file may be replaced: one that these programs wrote, which its first bytes say, and an
// empty one. Whatever else has the name of an output stays. Of each, `option` named the file.

// Whether `path` is a file with content: nothing is lost where it is free or empty. Throws
// Error{kCannotCreate} when it is a folder, a pipe or a device.
bool has_file(const std::string& path, const std::string& option);

// Throws Error{kCannotCreate} unless `path` is free, empty, or holds `mark` in its first bytes.
void check_may_replace(const std::string& path, std::string_view mark, const std::string& option);

// The error of an output that somebody else wrote; `problem` says by what that is seen, or "".
Error not_ours_to_replace(const std::string& path, const std::string& problem,
                          const std::string& option);

// `--scratch DIR`: large files are built on a local disk and then delivered to an output that may
// be a slow or poor mount (blobfuse, SMB). A place of its own there for one output; what a killed
// job left in it is removed first.
class Scratch {
 public:
  // Nothing is built elsewhere.
  Scratch() = default;
  // `folder` empty: as above. Call with `output` locked: two jobs on it would share the place.
  // Throws kCannotCreate.
  Scratch(const std::string& folder, const std::string& output);
  ~Scratch();
  Scratch(Scratch&&) = delete;

  // Where to build the file that goes to `path`: a file of this name here, or `path` itself.
  std::string build_path(const std::string& path) const;

 private:
  std::string place_{};  // empty: none
};

// The default folder for copies: $TMPDIR, or /tmp where that may not be written to.
std::string default_scratch();

}  // namespace retina
