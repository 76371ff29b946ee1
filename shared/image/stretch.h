// The conversion of samples of more than 8 bits to 8, if their meaning is not in the file: linearly
// between two percentiles of each channel over the whole image, as GIS programs show such images.
#pragma once

#include <optional>
#include <string>

namespace retina {

// Percentiles, 0 <= low < high <= 100.
struct Stretch {
  double low = 2, high = 98;
};

// Parses "2,98"; returns nothing if the text is not two such numbers.
std::optional<Stretch> parse_stretch(const std::string& text);

}  // namespace retina
