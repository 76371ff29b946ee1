// The output of a command: the lock of its writer, the settings of an earlier command that made it,
// whether it may be replaced, and where it is built.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "shared/base/descriptor.h"
#include "shared/base/error.h"

namespace retina {

// Holds an exclusive lock on the folder for this process's lifetime (flock on `.lock` inside).
// Throws kConfig if another process holds it, kCannotCreate; a file system without locks costs one
// warning.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);

 private:
  Descriptor lock_;
};

// Holds the same lock for an output that is one file (flock on `path.lock`, which is removed at the
// end).
class FileLock {
 public:
  explicit FileLock(const std::string& path);
  ~FileLock();
  FileLock(FileLock&&) = delete;

 private:
  std::string lock_path_;
  Descriptor lock_;
};

// Returns true if `path` is still a name of the open file: another process may have renamed or
// removed it before this one had its lock.
bool is_name_of(const std::string& path, int descriptor);

// Settings, name -> value, as shown to a user.
using SettingValues = std::map<std::string, std::string>;

// Returns how two sets of settings differ: "lr (was 0.01, now 0.02), seed (was 1, now unset)";
// empty if nothing differs.
std::string differences(const SettingValues& before, const SettingValues& now);

// Files that may be replaced: those that these programs wrote, which their first bytes show, and
// empty ones. Anything else with the name of an output stays. `option` gave the path.

// Returns true if `path` is a file with content: nothing is lost if it does not exist or is empty.
// Throws Error{kCannotCreate} if it is a folder, a pipe or a device.
bool has_file(const std::string& path, const std::string& option);

// Throws Error{kCannotCreate} unless `path` does not exist, is empty, or holds `mark` in its first
// bytes.
void check_may_replace(const std::string& path, std::string_view mark, const std::string& option);

// Returns the error for an output that something else wrote; `problem` says how that is recognised,
// or "".
Error not_ours_to_replace(const std::string& path, const std::string& problem,
                          const std::string& option);

// Manages `--scratch DIR`: large files are built on a local disk and then delivered to an output
// that may be a slow or poor mount (blobfuse, SMB). One output has its own folder there; leftovers
// of a killed job are removed first.
class Scratch {
 public:
  // Makes no folder: files are built in their place.
  Scratch() = default;
  // Does the same if `folder` is empty. Call with `output` locked: two jobs on it would share the
  // folder. Throws kCannotCreate.
  Scratch(const std::string& folder, const std::string& output);
  ~Scratch();
  Scratch(Scratch&&) = delete;

  // Returns where to build the file that goes to `path`: a file of this name in the scratch folder,
  // or `path` itself.
  std::string build_path(const std::string& path) const;

 private:
  std::string place_{};  // empty: none
};

// Returns the default folder for copies: $TMPDIR, or /tmp if that is not writable.
std::string default_scratch();

}  // namespace retina
