// Option values as text and as JSON, for the types that Cli::option takes: numbers, strings,
// comma-separated vectors, and optional of these. Only cli.cpp includes this.
#pragma once

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/json.h"

namespace retina {

[[noreturn]] inline void fail_value(const std::string& name, const std::string& got,
                                    const std::string& want) {
  throw Error(ErrorKind::kUsage,
              cat("--", name, ": bad value (got \"", got, "\", want ", want, ")"));
}

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T>
T parse_value(const std::string& name, const std::string& text) {
  if constexpr (std::is_same_v<T, std::string>) {
    return text;
  } else if constexpr (IsOptional<T>::value) {
    return parse_value<typename T::value_type>(name, text);
  } else if constexpr (IsVector<T>::value) {
    T values;
    std::istringstream stream(text);
    for (std::string item; std::getline(stream, item, ',');) {
      values.push_back(parse_value<typename T::value_type>(name, item));
    }
    if (values.empty()) fail_value(name, text, "values separated by commas");
    return values;
  } else {
    T value{};
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    bool good = result.ec == std::errc() && result.ptr == text.data() + text.size();
    if constexpr (std::is_floating_point_v<T>) good = good && std::isfinite(value);
    if constexpr (std::is_integral_v<T>) {
      using Limits = std::numeric_limits<T>;
      const bool negative = std::is_unsigned_v<T> && text.starts_with('-');
      if (result.ec == std::errc::result_out_of_range || negative) {
        fail_value(name, text, cat("a whole number from ", Limits::min(), " to ", Limits::max()));
      }
    }
    if (!good) fail_value(name, text, std::is_floating_point_v<T> ? "a number" : "a whole number");
    return value;
  }
}

template <class T>
std::string show_value(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return value;
  } else if constexpr (IsOptional<T>::value) {
    return value ? show_value(*value) : "";
  } else if constexpr (IsVector<T>::value) {
    std::string text;
    for (const auto& item : value) text += cat(text.empty() ? "" : ",", show_value(item));
    return text;
  } else if constexpr (std::is_floating_point_v<T>) {
    return shortest(value);
  } else {
    return std::to_string(value);
  }
}

template <class T>
void write_value(JsonWriter& json, const T& value) {
  if constexpr (IsOptional<T>::value) {
    if (value) {
      write_value(json, *value);
    } else {
      json.null();
    }
  } else if constexpr (IsVector<T>::value) {
    json.begin_array();
    for (const auto& item : value) write_value(json, item);
    json.end_array();
  } else {
    json.value(value);
  }
}

template <class T>
std::string json_value(const T& value) {
  JsonWriter json;
  write_value(json, value);
  return json.text();
}

}  // namespace retina
