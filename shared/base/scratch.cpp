#include "shared/base/scratch.h"

#include <filesystem>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"

namespace retina {

namespace fs = std::filesystem;

Scratch::Scratch(const std::string& folder, const std::string& output) {
  if (folder.empty()) return;
  const std::string whole = fs::weakly_canonical(output).string();
  place_ = cat(folder, "/retina-", hex64(xxh3(whole)));
  std::error_code ignored;
  fs::remove_all(place_, ignored);
  make_folder(place_, "--scratch");
}

Scratch::~Scratch() {
  if (place_.empty()) return;
  std::error_code ignored;
  fs::remove_all(place_, ignored);
}

std::string Scratch::build_path(const std::string& path) const {
  if (place_.empty()) return path;
  return place_ + "/" + fs::path(path).filename().string();
}

std::string default_scratch() {
  std::error_code code;
  const fs::path folder = fs::temp_directory_path(code);
  return code ? "/tmp" : folder.string();
}

}  // namespace retina
