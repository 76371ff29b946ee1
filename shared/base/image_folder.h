// A folder of image files from elsewhere: each of them may be missing, huge or unreadable, and the
// mount may go away while they are read.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "shared/base/error.h"

namespace retina {

// Reason why one file cannot be used: expected trouble, a value.
struct FileProblem {
  std::string kind{};    // one word for counting: "missing", "too-large", "damaged", ...
  std::string reason{};  // one sentence for people
  std::string hint{};    // the next step, the same for all of the kind; may be empty
};

// Runs `use()`, and turns a lack of memory for the image into a problem like any other.
std::optional<FileProblem> unless_too_large(const std::function<std::optional<FileProblem>()>& use);

// A file that was found.
struct FoundFile {
  std::string path{};
  std::uint64_t size_bytes = 0;
  std::string name{};  // relative to the folder: the name asked for, or another spelling
};

// Upper limit of an image file. A photograph is a thousand times smaller; larger files would only
// fill the memory of readers that hold whole files.
inline constexpr std::uint64_t kMaxImageFileBytes = std::uint64_t{512} << 20;

// Returns the last part of a folder's path, with "." and ".." resolved: as in other_spellings().
std::string own_name_of(const std::string& folder);

// Remembers the folder's mount: a mount that is lost later leaves an empty folder in its place.
class ImageFolder {
 public:
  explicit ImageFolder(std::string path, std::uint64_t max_file_bytes = kMaxImageFileBytes);

  const std::string& path() const { return path_; }

  // Looks for an image under its name and, if there is no such file, under other_spellings().
  // Returns a problem if there is no regular file ("missing"; a pipe would block forever), if the
  // name is empty or leads out of the folder ("name"), or if the file has more than
  // `max_file_bytes` ("too-large"). The folder is not listed: that takes minutes on some mounts.
  // Throws gone(), kIo.
  std::optional<FileProblem> find(const std::string& file_name, FoundFile& out) const;

  // Throws gone() unless the folder is still there on the same mount, read_error() if it may not be
  // entered.
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
