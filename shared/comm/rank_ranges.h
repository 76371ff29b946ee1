// Ranks in a line for people, however many they are.
#pragma once

#include <string>
#include <vector>

namespace retina {

// "3", "2, 3", "0, 8-15": three and more in a row are a range. `ranks` ascend.
std::string rank_ranges(const std::vector<int>& ranks);

}  // namespace retina
