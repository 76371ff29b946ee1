// An image file as it was packed: an interrupted packing continues with the same images only,
// wherever their folder is now.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace retina {

struct SourceFile {
  std::uint64_t size_bytes = 0;
  std::int64_t modified_ns = 0;  // since 1970; spares reading a file that nobody touched
  std::uint64_t xxh3 = 0;        // of its content
};

// When the file was changed last; 0 when that cannot be asked.
std::int64_t modified_ns(const std::string& path);

// `content` was read from `path`, which was changed last at `modified_ns`.
SourceFile source_file(std::string_view content, std::int64_t modified_ns);

// Whether the file has the same content: the same size, and the same time or the same hash. Throws
// kIo when the mount fails.
bool is_same_file(const std::string& path, const SourceFile& packed);

}  // namespace retina
