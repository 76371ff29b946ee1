#include "shared/base/text_encoding.h"

#include <iconv.h>
#include <utf8proc.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <regex>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

constexpr const char* kHint =
    "save the file as UTF-8 (iconv -f ITS_ENCODING -t UTF-8 FILE > NEW_FILE)";

std::size_t line_of(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  return static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')) + 1;
}

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

// Returns what stands around a bad byte in its line.
std::string around(std::string_view text, std::size_t offset) {
  constexpr std::size_t kBefore = 30, kBehind = 10;
  const std::size_t line = text.substr(0, offset).rfind('\n') + 1;  // npos + 1 is 0
  std::size_t begin = std::max(line, offset - std::min(offset, kBefore));
  while (begin < offset && continues_character(text[begin])) ++begin;
  const std::string_view shown = text.substr(begin, offset - begin + kBehind);
  return escaped(shown.substr(0, shown.find_first_of("\r\n", offset - begin + 1)));
}

// Text that declares one of these byte by byte needs no decoding: it is UTF-8, or a program that
// held it as UTF-16 wrote it as something else.
constexpr const char* kUnicode = "utf8(sig)?|(us)?ascii|unicode|utf16([lb]e)?|utf32|ucs[24]";

// Returns iconv's name of an encoding, for the largest of its family as browsers take it: files
// that say GB2312 have characters of its successors.
std::string iconv_name(const std::string& name) {
  const std::string plain = plain_word(name);
  if (name_matches(plain, "gb2312|gbk")) return "GB18030";
  return plain == "shiftjis" ? "CP932" : name;
}

// Reads the first character of `text`; returns its bytes, or below 1 when it is not UTF-8.
utf8proc_ssize_t next_character(std::string_view text, utf8proc_int32_t& character) {
  return utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                          static_cast<utf8proc_ssize_t>(text.size()), &character);
}

std::size_t utf8_bytes(std::string_view text) {
  std::size_t good = 0;
  while (good < text.size()) {
    const bool is_ascii = static_cast<unsigned char>(text[good]) < 0x80;  // most are: no call
    const std::size_t length = is_ascii ? 1 : utf8_length(text.substr(good));
    if (length == 0) break;
    good += length;
  }
  return good;
}

// Returns `text` with utf8proc's `options` and each character by `map`; itself where it is not
// UTF-8.
std::string mapped(std::string_view text, int options, utf8proc_custom_func map) {
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map_custom(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                          static_cast<utf8proc_ssize_t>(text.size()), &result,
                          static_cast<utf8proc_option_t>(options | UTF8PROC_STABLE), map, nullptr);
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(result, std::free);
  if (size < 0) return std::string(text);
  return {reinterpret_cast<const char*>(result), static_cast<std::size_t>(size)};
}

// Returns true if `bytes` are UTF-8 that somebody saved below a declaration of something else,
// which makes `decoded` of it. By chance, text in an encoding of two bytes a character can be UTF-8
// of two bytes a character; longer ones do not happen, nor do characters beyond ASCII where each
// has one byte (but for Shift_JIS's narrow katakana).
bool is_mislabelled_utf8(std::string_view bytes, const std::string& encoding,
                         std::string_view decoded) {
  return is_utf8(bytes) &&
         (std::any_of(bytes.begin(), bytes.end(),
                      [](char c) { return static_cast<unsigned char>(c) >= 0xE0; }) ||
          (encoding != "CP932" && character_count(decoded) == bytes.size()));
}

// Returns the encoding that the text declares, or nothing.
std::string declared_encoding(std::string_view text, EncodingIn where) {
  static const std::regex kXml(R"(\s*<\?xml[^>]*?encoding\s*=\s*["']?([-\w.:]+))"),
      kComment(R"((?:(?:[#%].*|---.*)?[\r\n])*?#.*coding[:=]\s*["']?([-\w.:]+))");
  constexpr std::size_t kTopBytes = 1024;
  const std::string top(text.substr(0, kTopBytes));
  std::smatch found;
  const bool is_there = where != EncodingIn::kNothing &&
                        std::regex_search(top, found, where == EncodingIn::kXml ? kXml : kComment,
                                          std::regex_constants::match_continuous);
  return is_there ? found[1].str() : "";
}

}  // namespace

bool begins_formula(std::string_view text) {
  const std::size_t begin = text.find_first_of("=+-@");
  return begin != std::string_view::npos && begin == text.find_first_not_of('\'');
}

std::size_t utf8_length(std::string_view text) {
  utf8proc_int32_t character = 0;
  return static_cast<std::size_t>(std::max<utf8proc_ssize_t>(next_character(text, character), 0));
}

bool is_utf8(std::string_view text) {
  return utf8_bytes(text) == text.size();
}

std::size_t character_count(std::string_view utf8) {
  return utf8.size() -
         static_cast<std::size_t>(std::count_if(utf8.begin(), utf8.end(), continues_character));
}

std::string wide_encoding(std::string_view bytes) {
  using namespace std::string_view_literals;
  if (bytes.starts_with("\xFF\xFE\0\0"sv) || bytes.starts_with("\0\0\xFE\xFF"sv)) return "UTF-32";
  return bytes.starts_with("\xFF\xFE") || bytes.starts_with("\xFE\xFF") ? "UTF-16" : "";
}

std::string decode_text(std::string bytes, EncodingIn where, const std::string& path) {
  if (bytes.starts_with("\xEF\xBB\xBF")) return bytes.substr(3);
  const std::string wide = wide_encoding(bytes),
                    name = wide.empty() ? declared_encoding(bytes, where) : wide;
  if (wide.empty() && (name.empty() || name_matches(plain_word(name), kUnicode))) return bytes;
  const std::string encoding = iconv_name(name);
  const iconv_t handle = ::iconv_open("UTF-8", encoding.c_str());
  const bool is_known = handle != iconv_t(-1);
  // A table, which may be large, is UTF-16: 3 bytes for 2 at most.
  std::string text((wide.empty() ? 4 : 2) * bytes.size(), '\0');
  char *in = bytes.data(), *out = text.data();
  std::size_t in_left = bytes.size(), out_left = text.size();
  if (is_known) {
    const std::unique_ptr<void, int (*)(iconv_t)> decoder(handle, ::iconv_close);
    ::iconv(handle, &in, &in_left, &out, &out_left);
    ::iconv(handle, nullptr, nullptr, &out, &out_left);  // a last letter that waits for an accent
  }
  text.resize(text.size() - out_left);
  if (wide.empty() && is_mislabelled_utf8(bytes, encoding, text)) return bytes;
  if (is_known && in_left == 0) return text;
  throw Error(
      ErrorKind::kData,
      cat(path, ": line ", line_of(text, text.size()), ": is not ", escaped(name),
          ", which its beginning declares (got \"", around(bytes, bytes.size() - in_left), "\")"),
      kHint);
}

void require_utf8(std::string_view text, const std::string& path, std::size_t line) {
  const std::size_t bad = std::min(utf8_bytes(text), text.find('\0'));
  if (bad >= text.size()) return;
  throw Error(ErrorKind::kData,
              cat(path, ": line ", line_of(text, bad) + line - 1, ": is not UTF-8 (got \"",
                  around(text, bad), "\")"),
              kHint);
}

std::string unicode_form(std::string_view text, int options) {
  return mapped(text, options, nullptr);
}

std::string lower_case(std::string_view utf8) {
  return mapped(utf8, 0, [](utf8proc_int32_t one, void*) { return utf8proc_tolower(one); });
}

std::string plain_word(std::string_view name) {
  std::string word;
  for (const unsigned char c : name) {
    if (c >= 0x80 || std::isalnum(c) != 0) word += static_cast<char>(std::tolower(c));
  }
  return word;
}

std::string_view trimmed(std::string_view text) {
  for (std::size_t before = 0; before != text.size();) {
    before = text.size();
    for (const std::string_view space :
         {" ", "\t", "\n", "\r", "\xC2\xA0", "\xE3\x80\x80", "\xEF\xBB\xBF"}) {
      if (text.starts_with(space)) text.remove_prefix(space.size());
      if (text.ends_with(space)) text.remove_suffix(space.size());
    }
  }
  return text;
}

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (; !bytes.empty(); bytes.remove_prefix(std::min<std::size_t>(bytes.size(), 3))) {
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      group = group << 8 | (i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0U);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      out += i <= bytes.size() ? kDigits[group >> (18 - 6 * i) & 63] : '=';
    }
  }
  return out;
}

}  // namespace retina
