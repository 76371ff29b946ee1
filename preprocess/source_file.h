// The image files as they were packed. An interrupted packing continues with the same images only,
// wherever their folder is now.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace retina {

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
