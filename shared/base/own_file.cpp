#include "shared/base/own_file.h"

#include <sys/stat.h>

#include "shared/base/file.h"

namespace retina {
namespace {

constexpr std::size_t kHeadBytes = 1024;

}  // namespace

Error not_ours_to_replace(const std::string& path, const std::string& problem,
                          const std::string& option) {
  return {ErrorKind::kCannotCreate,
          cat(path, ": exists and is not ours to replace", problem.empty() ? "" : ": ", problem),
          cat("choose another ", option, ", or move the file away")};
}

bool has_file(const std::string& path, const std::string& option) {
  if (path.ends_with('/')) {
    throw Error(ErrorKind::kCannotCreate, cat(path, ": is the name of a folder (want a file)"),
                cat("choose another ", option));
  }
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return false;  // free, or writing says what is wrong
  if (S_ISDIR(status.st_mode)) {
    throw Error(ErrorKind::kCannotCreate, cat(path, ": is a folder (want a file)"),
                cat("choose another ", option));
  }
  if (!S_ISREG(status.st_mode)) throw not_ours_to_replace(path, "", option);
  return status.st_size > 0;
}

void check_may_replace(const std::string& path, std::string_view mark, const std::string& option) {
  if (!has_file(path, option)) return;
  if (read_start(path, kHeadBytes).find(mark) != std::string::npos) return;
  throw not_ours_to_replace(path, "", option);
}

}  // namespace retina
