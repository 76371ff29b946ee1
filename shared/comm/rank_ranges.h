// Ranks on one line for people, however many there are.
#pragma once

#include <string>
#include <vector>

namespace retina {

// Returns "3", "2, 3", "0, 8-15": three and more in a row are a range. `ranks` ascend.
std::string rank_ranges(const std::vector<int>& ranks);

}  // namespace retina
