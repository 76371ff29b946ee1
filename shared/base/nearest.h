// The known name that a mistyped one probably meant, for hints.
#pragma once

#include <string>
#include <vector>

namespace retina {

// The candidate with the smallest edit distance to `name`; "" when none is near (more than half of
// its letters, and two, would have to change). On ties the first.
std::string nearest_match(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace retina
