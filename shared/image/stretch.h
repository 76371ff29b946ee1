// The conversion of samples of more than 8 bits to 8, if their meaning is not in the file: linearly
// between two percentiles of each channel over the whole image, as GIS programs show such images.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace retina {

// Percentiles, 0 <= low < high <= 100.
struct Stretch {
  double low = 2, high = 98;
};

// Parses "2,98"; returns nothing if the text is not two such numbers.
std::optional<Stretch> parse_stretch(const std::string& text);

// Counts the samples of an image.
class SampleHistogram {
 public:
  void add(const std::uint16_t* rgb, int pixel_count);

  // Returns the new value of each sample of a channel: 0 up to the smallest value that at least
  // `low` percent of all do not exceed, 255 from that of `high` percent on, rounded between.
  std::array<std::vector<std::uint8_t>, 3> tables(const Stretch& stretch) const;

 private:
  static constexpr std::size_t kValues = 1 << 16;
  std::vector<std::uint64_t> counts_ = std::vector<std::uint64_t>(3 * kValues);  // [3, kValues]
  std::uint64_t pixel_count_ = 0;
};

}  // namespace retina
