// A folder of image files that somebody else made: each of them may be missing, huge or unreadable,
// and the mount may go away while they are read.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "shared/base/error.h"

namespace retina {

// Why one file cannot be used: expected trouble, a value.
struct FileProblem {
  std::string kind{};    // one word for counting: "missing", "too-large", "damaged", ...
  std::string reason{};  // one sentence for people
};

// The folder as it is now: a mount that is lost later leaves an empty folder in its place.
class ImageFolder {
 public:
  explicit ImageFolder(std::string path);

  const std::string& path() const { return path_; }

  // Path of an image; nothing for a name that is empty or leads out of the folder.
  std::optional<std::string> path_of(const std::string& file_name) const;

  // The size in `size_bytes` of the file at `path`, one of path_of(). A problem when there is no
  // regular file ("missing"; a pipe would block forever) or it has more than 512 MiB ("too-large").
  // Throws gone() and kIo.
  std::optional<FileProblem> check_file(const std::string& path, std::uint64_t& size_bytes) const;

  // check_file(), then the whole content. Throws gone(), kIo, and kNoInput when the file may not be
  // read.
  std::optional<FileProblem> read(const std::string& path, std::string& bytes) const;

  // Throws gone() unless the folder is there and is the same mount.
  void check_present() const;
  Error gone() const;

 private:
  std::string path_;
  std::optional<dev_t> device_;
};

// Whether a call on an image that failed with `code` (an errno) means that there is no such file,
// not that the mount failed or that permission was lost.
bool means_no_file(int code);

}  // namespace retina
