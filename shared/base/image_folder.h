// A folder of image files that somebody else made: each of them may be missing, huge or unreadable,
// and the mount may go away while they are read.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "shared/base/error.h"

namespace retina {

// Why one file cannot be used: expected trouble, a value.
struct FileProblem {
  std::string kind{};    // one word for counting: "missing", "too-large", "damaged", ...
  std::string reason{};  // one sentence for people
  std::string hint{};    // what to do about it, the same for all of the kind; may be empty
};

// `use()`, but an image that there is no memory for is a problem like others.
std::optional<FileProblem> unless_too_large(const std::function<std::optional<FileProblem>()>& use);

// A file that was found.
struct FoundFile {
  std::string path{};
  std::uint64_t size_bytes = 0;
  std::string name{};  // below the folder: what was asked for, or another spelling of it
};

// A photograph is a thousand times smaller; more would only fill the memory of those who read whole
// files.
inline constexpr std::uint64_t kMaxImageFileBytes = std::uint64_t{512} << 20;

// The last part of a folder's path, wherever "." and ".." lead: as in other_spellings().
std::string own_name_of(const std::string& folder);

// The folder as it is now: a mount that is lost later leaves an empty folder in its place.
class ImageFolder {
 public:
  explicit ImageFolder(std::string path, std::uint64_t max_file_bytes = kMaxImageFileBytes);

  const std::string& path() const { return path_; }

  // Looks for an image, under its name and where there is no such file under other_spellings(). A
  // problem when there is no regular file ("missing"; a pipe would block forever), when the name is
  // empty or leads out of the folder ("name"), or when the file has more than `max_file_bytes`
  // ("too-large"). The folder is not listed: that takes minutes on some mounts. Throws gone(), kIo.
  std::optional<FileProblem> find(const std::string& file_name, FoundFile& out) const;

  // Throws gone() unless the folder is there and is the same mount, read_error() where it may not
  // be entered.
  void check_present() const;
  Error gone() const;

 private:
  std::optional<FileProblem> find_as_written(const std::string& file_name, FoundFile& out) const;

  std::string path_;
  std::string own_name_;  // the last part of the path
  std::optional<dev_t> device_;
  std::uint64_t max_file_bytes_;
};

}  // namespace retina
