// How two sets of settings differ: for the error of a command that finds what another one left.
#pragma once

#include <map>
#include <string>

namespace retina {

// Name -> value, as shown to a user.
using SettingValues = std::map<std::string, std::string>;

// "lr (was 0.01, now 0.02), seed (was 1, now unset)"; empty when nothing differs.
std::string differences(const SettingValues& before, const SettingValues& now);

}  // namespace retina
