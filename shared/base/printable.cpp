#include "shared/base/printable.h"

#include <algorithm>
#include <cctype>

#include "shared/base/cat.h"
#include "shared/base/text_encoding.h"

namespace retina {
namespace {

constexpr std::size_t kShownBytes = 80;

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

void append_escape(std::string& out, char c) {
  constexpr const char* kDigits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  if (c == '\n') {
    out += "\\n";
  } else if (c == '\t') {
    out += "\\t";
  } else {
    out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
  }
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
      for (const char c : character) append_escape(shown, c);
    } else {
      shown += character;
    }
    text.remove_prefix(character.size());
  }
  return shown;
}

constexpr std::size_t kReasonBytes = 300;

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// What follows "FILE.cpp:LINE", and ":" where that is there; all of `text` where it does not begin
// so.
std::string_view behind_place(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return text;
  const std::string_view file = text.substr(0, colon);
  const bool is_source = file.find(' ') == std::string_view::npos &&
                         (file.ends_with(".cpp") || file.ends_with(".hpp") ||
                          file.ends_with(".cc") || file.ends_with(".cu") || file.ends_with(".h"));
  if (!is_source) return text;
  std::string_view rest = text.substr(colon + 1);
  while (!rest.empty() && std::isdigit(static_cast<unsigned char>(rest.front())) != 0) {
    rest.remove_prefix(1);
  }
  if (rest.starts_with(':')) rest.remove_prefix(1);
  return trimmed(rest);
}

// Of a line of a message, what a user can understand.
std::string_view words_of_line(std::string_view line) {
  line = trimmed(line);
  constexpr std::string_view kFrom = "Exception from ", kFailed = "' failed at ",
                             kEnforce = "[enforce fail at ";
  if (line.starts_with(kFrom)) return behind_place(line.substr(kFrom.size()));
  if (line.starts_with("Check '")) {  // OpenVINO's assertion: its expression says nothing
    const std::size_t failed = line.find(kFailed);
    if (failed != std::string_view::npos) return behind_place(line.substr(failed + kFailed.size()));
  }
  if (line.starts_with(kEnforce)) {
    const std::size_t end = line.find(']');
    if (end == std::string_view::npos) return "";
    line = trimmed(line.substr(end + 1));
    return trimmed(line.starts_with('.') ? line.substr(1) : line);
  }
  return behind_place(line);
}

bool begins_backtrace(std::string_view line) {
  return line.starts_with("Exception raised from ") || line.starts_with("frame #") ||
         line.starts_with("C++ CapturedTraceback");
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown(text.substr(0, kShownBytes));
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  return shown;
}
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
  while (!message.empty() && reason.size() <= kReasonBytes) {
    const std::size_t end = message.find('\n');
    const std::string_view line = message.substr(0, end);
    message.remove_prefix(end == std::string_view::npos ? message.size() : end + 1);
    if (begins_backtrace(line)) break;
    std::string_view words = words_of_line(line);
    while (words.ends_with(':') || words.ends_with('.')) words.remove_suffix(1);
    if (words.empty()) continue;
    if (!reason.empty()) reason += "; ";
    reason += words;
  }
  if (reason.size() > kReasonBytes) {
    std::size_t end = kReasonBytes;
    while ((static_cast<unsigned char>(reason[end]) & 0xC0U) == 0x80U) --end;  // whole characters
    reason = reason.substr(0, end) + "...";
  }
  return reason.empty() ? "no reason given" : reason;
}

}  // namespace retina
