#include "shared/image/stretch.h"

#include "shared/base/exact_number.h"

namespace retina {

std::optional<Stretch> parse_stretch(const std::string& text) {
  const auto pair = exact_pair<double>(text, ',');
  if (!pair || !(0 <= pair->first && pair->first < pair->second && pair->second <= 100)) {
    return std::nullopt;
  }
  return Stretch{.low = pair->first, .high = pair->second};
}

}  // namespace retina
