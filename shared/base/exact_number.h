// Numbers in JSON texts to the last bit, by the standard library: RapidJSON's own exact reader
// reads beyond the end of a table for some numbers of many digits.
#pragma once

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <system_error>

namespace retina {

// Returns `text` as an integer; nothing unless all of it is one and in range.
template <class Integer>
std::optional<Integer> exact_integer(std::string_view text) {
  Integer number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (stop != text.data() + text.size() || error != std::errc()) return std::nullopt;
  return number;
}

// Returns the f64 nearest to a JSON number, also NaN and infinities; an infinity if it is too
// large. `text` must be followed by a NUL.
inline double exact_double(std::string_view text) {
  double number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_read = stop == text.data() + text.size() && error == std::errc();
  return is_read ? number : std::strtod(text.data(), nullptr);
}

}  // namespace retina
