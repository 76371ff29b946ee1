#include "tests/support/faults/rules.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>

namespace faults {
namespace {

std::vector<Rule*>& list() {
  static std::vector<Rule*> all;
  return all;
}

int errno_named(const std::string& name) {
  static const std::map<std::string, int> kCodes = {
      {"EINVAL", EINVAL}, {"ENOTSUP", ENOTSUP}, {"ENOSYS", ENOSYS}, {"ENODEV", ENODEV},
      {"ENOLCK", ENOLCK}, {"ENOSPC", ENOSPC},   {"EIO", EIO},       {"EXDEV", EXDEV},
      {"EEXIST", EEXIST}, {"EACCES", EACCES},   {"EINTR", EINTR},   {"EROFS", EROFS},
      {"EBUSY", EBUSY},   {"EDQUOT", EDQUOT},   {"ENOENT", ENOENT}, {"ESTALE", ESTALE},
      {"EAGAIN", EAGAIN}};
  const auto found = kCodes.find(name);
  return found == kCodes.end() ? 0 : found->second;
}

[[noreturn]] void refuse(const std::string& text) {
  std::fprintf(stderr, "RETINA_FAULTS: cannot be understood: %s\n", text.c_str());
  std::abort();
}

Rule* parsed(const std::string& text) {
  auto* rule = new Rule;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) refuse(text);
    const std::string key = word.substr(0, equals), value = word.substr(equals + 1);
    if (rule->call.empty()) {
      rule->call = key;
      rule->effect = value;
      rule->code = errno_named(value);
    } else if (key == "path") {
      rule->path = value;
    } else {
      long* const number = key == "after"   ? &rule->after
                           : key == "times" ? &rule->times
                           : key == "every" ? &rule->every
                           : key == "bytes" ? &rule->bytes
                                            : nullptr;
      if (number == nullptr) refuse(text);
      *number = std::atol(value.c_str());
    }
  }
  static const std::array<const char*, 11> kOthers = {"short",  "slow",    "kill",  "tear",
                                                      "vanish", "unmount", "flip",  "free",
                                                      "nfs",    "count",   "record"};
  bool known = rule->code != 0;
  for (const char* other : kOthers) known = known || rule->effect == other;
  if (!known) refuse(text);
  return rule;
}

__attribute__((constructor)) void read_rules() {
  const char* text = std::getenv("RETINA_FAULTS");
  std::istringstream parts(text == nullptr ? "" : text);
  for (std::string part; std::getline(parts, part, ';');) {
    if (part.find_first_not_of(' ') != std::string::npos) list().push_back(parsed(part));
  }
}

__attribute__((destructor)) void tell() {
  const char* path = std::getenv("RETINA_FAULTS_SEEN");
  if (path == nullptr || rules().empty()) return;
  if (std::FILE* const file = std::fopen(path, "w")) {
    std::fprintf(file, "%ld %ld\n", rules()[0]->seen.load(), rules()[0]->done.load());
    std::fclose(file);
  }
}

bool changes_a_disk(const std::string& call) {
  static const std::array<const char*, 7> kCalls = {"open",   "write",  "fsync", "fsync-folder",
                                                    "rename", "unlink", "cut"};
  for (const char* one : kCalls) {
    if (call == one) return true;
  }
  return false;
}

}  // namespace

const std::vector<Rule*>& rules() {
  return list();
}

Rule* firing(const std::string& call, const std::string& path) {
  Rule* result = nullptr;
  for (Rule* rule : rules()) {
    if (rule->call != call && !(rule->call == "any" && changes_a_disk(call))) continue;
    if (path.compare(0, rule->path.size(), rule->path) != 0) continue;
    const long number = rule->seen++;
    if (result != nullptr || number < rule->after || rule->effect == "count" ||
        rule->effect == "record") {
      continue;
    }
    if ((number - rule->after) % rule->every != 0 || rule->bytes >= 0) continue;
    if (rule->done++ >= rule->times && rule->times >= 0) continue;
    result = rule;
  }
  return result;
}

Rule* filling(const std::string& path, std::size_t size) {
  for (Rule* rule : rules()) {
    if (rule->call != "write" || rule->bytes < 0) continue;
    if (path.compare(0, rule->path.size(), rule->path) != 0) continue;
    if (rule->written.fetch_add(static_cast<long>(size)) + static_cast<long>(size) > rule->bytes) {
      ++rule->done;
      return rule;
    }
  }
  return nullptr;
}

}  // namespace faults
