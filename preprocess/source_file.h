// The image files: their folder, and each of them as it was packed. An interrupted packing
// continues with the same images only, wherever their folder is now.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "shared/base/error.h"

namespace retina {

// The folder as it is now: a mount that is lost later leaves an empty folder in its place.
class ImageFolder {
 public:
  explicit ImageFolder(std::string path);

  // Path of an image; nothing for a name that is empty or leads out of the folder.
  std::optional<std::string> path_of(const std::string& file_name) const;

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

struct SourceFile {
  std::uint64_t size_bytes = 0;
  std::int64_t modified_ns = 0;  // since 1970; saves reading a file that has not changed
  std::uint64_t xxh3 = 0;        // of its content
};

// When the file was changed last; 0 when that cannot be determined.
std::int64_t modified_ns(const std::string& path);

// `content` was read from `path`, which was changed last at `modified_ns`.
SourceFile source_file(std::string_view content, std::int64_t modified_ns);

// The same content: the same size, and the same time or the same hash. Throws kIo when the mount
// fails, kNoInput when the file may not be read.
enum class FileMatch { kSame, kOther, kMissing };
FileMatch compare_file(const std::string& path, const SourceFile& packed);

}  // namespace retina
