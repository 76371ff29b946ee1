#include "shared/base/printable.h"

#include <algorithm>
#include <regex>
#include <sstream>
#include <string>

#include "shared/base/cat.h"
#include "shared/base/text_encoding.h"

namespace retina {
namespace {

// C0, DEL and, as two bytes of UTF-8, C1: terminals act on all three.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7F;
  return character.size() == 2 && first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
}

// Those that change what a line looks like without being seen: zero-width characters, separators of
// lines, and the Bidi_Control property of Unicode. `plain` in shared/report/kit has the same.
bool is_invisible(std::string_view character) {
  if (character == "\u061c") return true;
  if (character.size() != 3) return false;
  return (character >= "\u200b" && character <= "\u200f") ||
         (character >= "\u2028" && character <= "\u202e") ||
         (character >= "\u2066" && character <= "\u2069") || character == "\ufeff";
}

std::string escape_of(char c) {
  constexpr const char* kDigits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  if (c == '\n') return "\\n";
  if (c == '\t') return "\\t";
  return {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
}

template <class Refuses>
std::string with_escapes(std::string_view text, std::size_t max_characters,
                         const Refuses& refuses) {
  std::string shown;
  for (std::size_t count = 0; !text.empty(); ++count) {
    if (count == max_characters) return shown + "\u2026";
    const std::size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, length == 0 ? 1 : length);
    if (length == 0 || refuses(character)) {
      for (const char c : character) shown += escape_of(c);
    } else {
      shown += character;
    }
    text.remove_prefix(character.size());
  }
  return shown;
}

constexpr std::size_t kReasonBytes = 300;

// Returns a message's line without what names the library's own source: "Exception from
// src/core.cpp:105:", "Check 'expression' failed at src/core.cpp:12:", "[enforce fail at a.cc:7]
// .".
std::string words_of_line(std::string_view line) {
  static const std::regex kPlace(
      R"(\[enforce fail at [^\]]*(\]\s*\.?)?|)"
      R"((Exception from )?((Check '.*' failed at )?[^ :]*\.(cpp|hpp|cc|cu|h):\d*:?)?)");
  constexpr std::size_t kMostBytes = 2000;  // std::regex recurses
  const std::string words = std::regex_replace(
      std::string(trimmed(line).substr(0, kMostBytes)), kPlace, "",
      std::regex_constants::match_continuous | std::regex_constants::format_first_only);
  return std::string(trimmed(words.substr(0, words.find_last_not_of(":.") + 1)));
}

bool begins_backtrace(std::string_view line) {
  return line.starts_with("Exception raised from ") || line.starts_with("frame #") ||
         line.starts_with("C++ CapturedTraceback");
}

}  // namespace

std::string escaped(std::string_view text, std::size_t max_characters) {
  return with_escapes(text, max_characters, [](std::string_view character) {
    return is_control(character) || is_invisible(character);
  });
}

std::string one_line(std::string_view text) {
  std::string line;
  for (bool has_gap = false; !text.empty();) {
    const std::string_view character = text.substr(0, std::max<std::size_t>(utf8_length(text), 1));
    text.remove_prefix(character.size());
    if (!is_control(character)) line += cat(has_gap && !line.empty() ? " " : "", character);
    has_gap = is_control(character);
  }
  return line;
}

std::string image_name(std::int64_t id, std::string_view file_name) {
  if (file_name.empty()) return cat("image ", id);
  return cat(escaped(file_name), " (image ", id, ")");
}

std::string as_utf8(std::string_view text) {
  return with_escapes(text, kWholeText, [](std::string_view) { return false; });
}

std::string library_reason(std::string_view message) {
  std::string reason;
  std::istringstream lines{std::string(message)};
  for (std::string line; reason.size() <= kReasonBytes && std::getline(lines, line);) {
    if (begins_backtrace(line)) break;
    const std::string words = words_of_line(line);
    if (!words.empty()) reason += cat(reason.empty() ? "" : "; ", words);
  }
  if (reason.size() > kReasonBytes) {
    std::size_t end = kReasonBytes;
    while ((static_cast<unsigned char>(reason[end]) & 0xC0U) == 0x80U) --end;  // whole characters
    reason = reason.substr(0, end) + "...";
  }
  return reason.empty() ? "no reason given" : reason;
}

}  // namespace retina
