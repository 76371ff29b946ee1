// Numbers as little-endian bytes on every machine: the building blocks of record and index.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace retina {

// Appends the bytes of an integer or f64.
template <std::integral T>
void put(std::string& out, T value) {
  auto bits = static_cast<std::uint64_t>(static_cast<std::make_unsigned_t<T>>(value));
  for (std::size_t i = 0; i < sizeof(T); ++i, bits >>= 8) {
    out.push_back(static_cast<char>(bits & 0xff));
  }
}
inline void put(std::string& out, double value) {
  put(out, std::bit_cast<std::uint64_t>(value));
}

// Reads a T at byte `offset`; the caller has checked that it lies inside.
template <std::integral T>
T get(std::string_view bytes, std::size_t offset) {
  std::uint64_t bits = 0;
  for (std::size_t i = sizeof(T); i > 0; --i) {
    bits = bits << 8 | static_cast<unsigned char>(bytes[offset + i - 1]);
  }
  return static_cast<T>(bits);
}
inline double get_f64(std::string_view bytes, std::size_t offset) {
  return std::bit_cast<double>(get<std::uint64_t>(bytes, offset));
}

}  // namespace retina
