#include "shared/base/settings.h"

#include "shared/base/cat.h"

namespace retina {

std::string differences(const SettingValues& before, const SettingValues& now) {
  SettingValues all = before;
  all.insert(now.begin(), now.end());
  const auto value_in = [](const SettingValues& settings, const std::string& name) {
    const auto found = settings.find(name);
    return found == settings.end() ? std::string("unset") : found->second;
  };
  std::string text;
  for (const auto& [name, unused] : all) {
    const std::string was = value_in(before, name), is = value_in(now, name);
    if (was != is) text += cat(text.empty() ? "" : ", ", name, " (was ", was, ", now ", is, ")");
  }
  return text;
}

}  // namespace retina
