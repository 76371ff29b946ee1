#include "shared/base/image_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

#include "shared/base/file.h"
#include "shared/base/file_spelling.h"

namespace retina {
namespace {

// Returns the device that a folder is mounted on; nothing if it cannot be determined: errno has the
// reason.
std::optional<dev_t> device_of(const std::string& folder) {
  struct stat status {};
  // The dot makes an automounter mount it.
  if (::stat((folder + "/.").c_str(), &status) != 0) return std::nullopt;
  return status.st_dev;
}

}  // namespace

std::string own_name_of(const std::string& folder) {
  std::error_code code;
  const auto path = std::filesystem::absolute(folder, code).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

std::optional<FileProblem> unless_too_large(
    const std::function<std::optional<FileProblem>()>& use) {
  try {
    return use();
  } catch (const std::bad_alloc&) {
    return FileProblem{.kind = "too-large", .reason = "does not fit into memory"};
  }
}

ImageFolder::ImageFolder(std::string path, std::uint64_t max_file_bytes)
    : path_(std::move(path)),
      own_name_(own_name_of(path_)),
      device_(device_of(path_)),
      max_file_bytes_(max_file_bytes) {}

std::optional<FileProblem> ImageFolder::find_as_written(const std::string& file_name,
                                                        FoundFile& out) const {
  const std::filesystem::path name(file_name);
  // COCO file names are relative; other paths would read files outside the data set.
  if (name.empty() || name.is_absolute() ||
      std::find(name.begin(), name.end(), "..") != name.end()) {
    return FileProblem{.kind = "name", .reason = "the file name leads out of the image folder"};
  }
  const std::string path = path_ + "/" + file_name;
  std::error_code code;
  const std::filesystem::file_status status = std::filesystem::status(path, code);
  if (!std::filesystem::is_regular_file(status)) {
    check_present();
    if (code && !means_no_file(code.value())) throw read_error(path, code.value());
    return FileProblem{
        .kind = "missing",
        .reason = std::filesystem::exists(status) ? "is not a regular file" : "does not exist"};
  }
  out = {.path = path, .size_bytes = std::filesystem::file_size(path, code), .name = file_name};
  if (!code && out.size_bytes > max_file_bytes_) {
    return FileProblem{.kind = "too-large",
                       .reason = cat("the file has ", out.size_bytes, " bytes (the limit is ",
                                     max_file_bytes_, ")")};
  }
  return std::nullopt;
}

std::optional<FileProblem> ImageFolder::find(const std::string& file_name, FoundFile& out) const {
  const auto is_elsewhere = [](const std::optional<FileProblem>& problem) {
    return problem && (problem->kind == "missing" || problem->kind == "name");
  };
  std::optional<FileProblem> problem = find_as_written(file_name, out);
  if (!is_elsewhere(problem)) return problem;
  for (const std::string& other : other_spellings(file_name, own_name_)) {
    auto other_problem = find_as_written(other, out);
    if (!is_elsewhere(other_problem)) return other_problem;
  }
  return problem;
}

void ImageFolder::check_present() const {
  const std::optional<dev_t> device = device_of(path_);
  if (!device && errno == EACCES) throw read_error(path_, errno);
  if (!device || device != device_) throw gone();
}

Error ImageFolder::gone() const {
  return {ErrorKind::kIo, cat(path_, ": the image folder is gone"),
          "fix the mount, then run the same command again"};
}

}  // namespace retina
