// String building, cat("shard ", 3, ": ", path), where numbers print as streams print them; and
// numbers, sizes and counted nouns as text for people.
#pragma once

#include <sstream>
#include <string>
#include <string_view>

namespace retina {

// Concatenates the arguments as `operator<<` prints them.
template <class... Args>
std::string cat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

// Returns `value` with exactly `digits` decimals, in the C locale.
std::string fixed(double value, int digits);

// Returns the shortest decimal text that reads back as the same f64.
std::string shortest(double value);

// Returns a byte count for people: "512 B", "3.4 MiB".
std::string human_bytes(double bytes);

// Returns a duration for people: "42 s", "3 min 05 s", "2 h 10 min".
std::string human_seconds(double seconds);

// Returns "1 image", "2 images", "0 classes": `count` as a stream prints it and `noun`, in the
// plural unless it is 1: with an "s", or `plural` if it is given ("class", "classes").
template <class Number>
std::string counted(const Number& count, std::string_view noun, std::string_view plural = "") {
  if (count == Number{1}) return cat(count, ' ', noun);
  return plural.empty() ? cat(count, ' ', noun, 's') : cat(count, ' ', plural);
}

}  // namespace retina
