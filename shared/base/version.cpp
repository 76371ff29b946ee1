#include "shared/base/version.h"

#include <utility>
#include <vector>

#include "shared/base/cat.h"

namespace retina {
namespace {

std::vector<std::pair<std::string, std::function<std::string()>>>& libraries() {
  static std::vector<std::pair<std::string, std::function<std::string()>>> list;
  return list;
}

}  // namespace

void register_library_version(const std::string& name, std::function<std::string()> version) {
  libraries().emplace_back(name, std::move(version));
}

std::string version_text(const std::string& program) {
  std::string text = cat(program, " ", kProjectVersion, " (git ", kGitRevision, ")\n");
  for (const auto& [name, version] : libraries()) text += cat(name, " ", version(), "\n");
  return text;
}

}  // namespace retina
