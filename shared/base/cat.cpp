#include "shared/base/cat.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace retina {

std::string fixed(double value, int digits) {
  std::array<char, 400> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                    std::chars_format::fixed, digits);
  return {buffer.data(), result.ptr};
}

std::string shortest(double value) {
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
  std::array<char, 64> buffer{};
  if (total < 3600) {
    std::snprintf(buffer.data(), buffer.size(), "%lld min %02lld s", total / 60, total % 60);
  } else {
    std::snprintf(buffer.data(), buffer.size(), "%lld h %02lld min", total / 3600,
                  total % 3600 / 60);
  }
  return buffer.data();
}

}  // namespace retina
