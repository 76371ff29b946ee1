#include "shared/image/stretch.h"

#include <cmath>

#include "shared/base/exact_number.h"

namespace retina {
std::optional<Stretch> parse_stretch(const std::string& text) {
  const auto pair = exact_pair<double>(text, ',');
  if (!pair || !(0 <= pair->first && pair->first < pair->second && pair->second <= 100)) {
    return std::nullopt;
  }
  return Stretch{.low = pair->first, .high = pair->second};
}

void SampleHistogram::add(const std::uint16_t* rgb, int pixel_count) {
  for (int i = 0; i < pixel_count; ++i, rgb += 3) {
    for (std::size_t c = 0; c < 3; ++c) ++counts_[c * kValues + rgb[c]];
  }
  pixel_count_ += static_cast<std::uint64_t>(pixel_count);
}

std::array<std::vector<std::uint8_t>, 3> SampleHistogram::tables(const Stretch& stretch) const {
  std::array<std::vector<std::uint8_t>, 3> tables;
  for (std::size_t c = 0; c < 3; ++c) {
    const std::uint64_t* const counts = counts_.data() + c * kValues;
    const auto percentile = [&](double percent) {
      const double wanted = percent / 100 * static_cast<double>(pixel_count_);
      std::uint64_t sum = 0;
      for (std::size_t value = 0; value < kValues; ++value) {
        sum += counts[value];
        if (sum > 0 && static_cast<double>(sum) >= wanted) return static_cast<double>(value);
      }
      return static_cast<double>(kValues - 1);
    };
    const double low = percentile(stretch.low), high = percentile(stretch.high);
    tables[c].resize(kValues);
    for (std::size_t value = 0; value < kValues; ++value) {
      const double above = static_cast<double>(value) - low;
      const double share = above <= 0 ? 0 : above >= high - low ? 1 : above / (high - low);
      tables[c][value] = static_cast<std::uint8_t>(std::lround(255 * share));
    }
  }
  return tables;
}

}  // namespace retina
