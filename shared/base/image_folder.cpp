#include "shared/base/image_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "shared/base/file.h"

namespace retina {
namespace {

// A photograph is a thousand times smaller; more would only fill the memory.
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{512} << 20;

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

std::optional<FileProblem> ImageFolder::check_file(const std::string& path,
                                                   std::uint64_t& size_bytes) const {
  std::error_code code;
  const std::filesystem::file_status status = std::filesystem::status(path, code);
  if (!std::filesystem::is_regular_file(status)) {
    check_present();
    if (code && !means_no_file(code.value())) throw read_error(path, code.value());
    return FileProblem{
        .kind = "missing",
        .reason = std::filesystem::exists(status) ? "is not a regular file" : "does not exist"};
  }
  size_bytes = std::filesystem::file_size(path, code);
  if (!code && size_bytes > kMaxFileBytes) {
    return FileProblem{
        .kind = "too-large",
        .reason = cat("the file has ", size_bytes, " bytes (the limit is ", kMaxFileBytes, ")")};
  }
  return std::nullopt;
}

std::optional<FileProblem> ImageFolder::read(const std::string& path, std::string& bytes) const {
  std::uint64_t size_bytes = 0;
  if (auto problem = check_file(path, size_bytes)) return problem;
  bytes = read_file(path);
  return std::nullopt;
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

}  // namespace retina
