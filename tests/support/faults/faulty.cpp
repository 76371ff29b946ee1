#include "tests/support/faults/faulty.h"

namespace retina {

std::vector<std::string> faulty(const std::string& rules, std::vector<std::string> command,
                                const std::string& seen_file) {
  std::vector<std::string> all = {"env", "LD_PRELOAD=" RETINA_FAULTS_LIBRARY,
                                  "RETINA_FAULTS=" + rules};
  if (!seen_file.empty()) all.push_back("RETINA_FAULTS_SEEN=" + seen_file);
  command.at(0) = RETINA_BIN_DIR "/" + command.at(0);
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

int count_of(const std::string& text, const std::string& in) {
  int count = 0;
  for (std::size_t at = 0; (at = in.find(text, at)) != std::string::npos; at += text.size()) {
    ++count;
  }
  return count;
}

bool faults_work() {
  return std::string(RETINA_SANITIZE_KIND).empty();
}

}  // namespace retina
