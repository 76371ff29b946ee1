// Numbers in texts to the last bit, by the standard library: RapidJSON's own exact reader reads
// beyond the end of a table for some numbers of many digits.
#pragma once

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace retina {

// Returns `text` as a number; nothing unless all of it is one and in range.
template <class Number>
std::optional<Number> exact_number(std::string_view text) {
  Number number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (stop != text.data() + text.size() || error != std::errc()) return std::nullopt;
  return number;
}

// Returns the two numbers that `text` is, with `separator` between them: "3/8".
template <class Number>
std::optional<std::pair<Number, Number>> exact_pair(std::string_view text, char separator) {
  const std::size_t middle = text.find(separator);
  if (middle == std::string_view::npos) return std::nullopt;
  const auto first = exact_number<Number>(text.substr(0, middle)),
             second = exact_number<Number>(text.substr(middle + 1));
  if (!first || !second) return std::nullopt;
  return std::pair{*first, *second};
}

// Returns the f64 nearest to a JSON number, also NaN and infinities; an infinity if it is too
// large. `text` must be followed by a NUL.
inline double exact_double(std::string_view text) {
  const std::optional<double> number = exact_number<double>(text);
  return number ? *number : std::strtod(text.data(), nullptr);
}

}  // namespace retina
