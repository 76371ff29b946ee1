#include "tests/support/test_folder.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "shared/base/error.h"

namespace retina {

namespace fs = std::filesystem;

TestFolder::TestFolder() {
  std::string pattern = (fs::temp_directory_path() / "retina-test-XXXXXX").string();
  RETINA_CHECK(::mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TestFolder::~TestFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string test_data(const std::string& relative) {
  const char* root = std::getenv("RETINA_TEST_DATA");
  const fs::path base =
      root != nullptr ? fs::path(root) : fs::path(RETINA_SOURCE_DIR) / ".." / "shared" / "data";
  const fs::path path = (base / relative).lexically_normal();
  return fs::exists(path) ? path.string() : "";
}

}  // namespace retina
