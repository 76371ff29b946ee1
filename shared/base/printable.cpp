#include "shared/base/printable.h"

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

}  // namespace

std::string printable(std::string_view text) {
  std::string shown(text.substr(0, kShownBytes));
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  return shown;
}

namespace {

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

}  // namespace

std::string escaped(std::string_view text, std::size_t max_characters) {
  return with_escapes(text, max_characters, is_control);
}

std::string as_utf8(std::string_view text) {
  return with_escapes(text, kWholeText, [](std::string_view) { return false; });
}

}  // namespace retina
