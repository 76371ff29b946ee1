#include "shared/base/cat.h"

#include <array>
#include <charconv>
#include <cmath>

namespace retina {

// Text of every NaN; its sign means nothing to a reader.
constexpr const char* kNan = "nan";

std::string fixed(double value, int digits) {
  if (std::isnan(value)) return kNan;
  std::array<char, 400> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                    std::chars_format::fixed, digits);
  return {buffer.data(), result.ptr};
}

std::string shortest(double value) {
  if (std::isnan(value)) return kNan;
  std::array<char, 64> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), result.ptr};
}

std::string human_bytes(double bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return cat(fixed(bytes, unit == 0 ? 0 : 1), " ", kUnits[unit]);
}

std::string human_seconds(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  const auto total = static_cast<long long>(std::llround(std::max(0.0, seconds)));
  if (total < 60) return cat(total, " s");
  const auto two_digits = [](long long value) { return cat(value < 10 ? "0" : "", value); };
  if (total < 3600) return cat(total / 60, " min ", two_digits(total % 60), " s");
  return cat(total / 3600, " h ", two_digits(total % 3600 / 60), " min");
}

}  // namespace retina
