// Lists of texts as the bytes that ranks send each other.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "shared/base/error.h"

namespace retina {

// Texts without zero bytes, one after the other.
inline std::string join(const std::vector<std::string>& fields) {
  std::string bytes;
  for (const std::string& field : fields) {
    bytes += field;
    bytes += '\0';
  }
  return bytes;
}

inline std::vector<std::string> split(std::string_view bytes) {
  std::vector<std::string> fields;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\0');
    RETINA_CHECK(end != std::string_view::npos);
    fields.emplace_back(bytes.substr(0, end));
    bytes.remove_prefix(end + 1);
  }
  return fields;
}

inline std::uint64_t number_of(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  RETINA_CHECK(error == std::errc() && end == text.data() + text.size(), text);
  return number;
}

}  // namespace retina
