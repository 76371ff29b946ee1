#include "preprocess/source_file.h"

#include <sys/stat.h>

#include <cerrno>

#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/image_folder.h"

namespace retina {
namespace {

std::int64_t in_ns(const struct timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

std::int64_t modified_ns(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? in_ns(status.st_mtim) : 0;
}

SourceFile source_file(std::string_view content, std::int64_t modified_ns) {
  return {.size_bytes = content.size(), .modified_ns = modified_ns, .xxh3 = xxh3(content)};
}

FileMatch compare_file(const std::string& path, const SourceFile& packed) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    const int code = errno;
    if (means_no_file(code)) return FileMatch::kMissing;
    throw read_error(path, code);
  }
  if (!S_ISREG(status.st_mode) || static_cast<std::uint64_t>(status.st_size) != packed.size_bytes) {
    return FileMatch::kOther;
  }
  const bool is_same =
      in_ns(status.st_mtim) == packed.modified_ns || xxh3_file(path) == packed.xxh3;
  return is_same ? FileMatch::kSame : FileMatch::kOther;
}

}  // namespace retina
