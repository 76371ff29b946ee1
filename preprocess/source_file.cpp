#include "preprocess/source_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "shared/base/file.h"
#include "shared/base/hash.h"

namespace retina {
namespace {

std::int64_t in_ns(const struct timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Where a folder is mounted; nothing when that cannot be determined.
std::optional<dev_t> device_of(const std::string& folder) {
  struct stat status {};
  // The dot makes an automounter mount it.
  if (::stat((folder + "/.").c_str(), &status) != 0) return std::nullopt;
  return status.st_dev;
}

}  // namespace

ImageFolder::ImageFolder(std::string path) : path_(std::move(path)), device_(device_of(path_)) {}

// COCO file names are relative; others would read files outside the data set.
std::optional<std::string> ImageFolder::path_of(const std::string& file_name) const {
  const std::filesystem::path name(file_name);
  if (name.empty() || name.is_absolute() ||
      std::find(name.begin(), name.end(), "..") != name.end()) {
    return std::nullopt;
  }
  return path_ + "/" + file_name;
}

void ImageFolder::check_present() const {
  const std::optional<dev_t> device = device_of(path_);
  if (!device || device != device_) throw gone();
}

Error ImageFolder::gone() const {
  return {ErrorKind::kIo, cat(path_, ": the image folder is gone"),
          "fix the mount, then run the same command again"};
}

bool means_no_file(int code) {
  return code == ENOENT || code == ENOTDIR || code == ENAMETOOLONG || code == ELOOP;
}

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
