#include "shared/base/text_encoding.h"

#include <iconv.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <regex>
#include <utility>
#include <vector>

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

constexpr const char* kShiftJis = "CP932";

// Encodings by patterns of their plain_word(), with the name that iconv has for the largest of
// their family, which browsers take, too: files that say GB2312 have characters of its successors.
constexpr std::pair<const char*, const char*> kFamilies[] = {
    {"gb2312|gbk|cp936|windows936|euccn", "GB18030"},
    {"shiftjis|sjis|windows31j|mskanji", kShiftJis},
    {"euckr|ksc5601(1987)?", "CP949"}};

// Text that declares one of these byte by byte needs no decoding: it is UTF-8, or a program that
// held it as UTF-16 wrote it as something else.
constexpr const char* kUnicode = "utf8(sig)?|(us)?ascii|unicode|utf16([lb]e)?|utf32|ucs[24]";

// Returns iconv's names of what a file calls by the name, the likeliest first.
std::vector<std::string> names_for_iconv(const std::string& name) {
  const std::string plain = plain_word(name);
  for (const auto& [pattern, known] : kFamilies) {
    if (name_matches(plain, pattern)) return {known};
  }
  return {name, plain};
}

// Decodes `bytes` as far as it goes; what could not be decoded stays in them.
std::string decoded(iconv_t decoder, std::string_view& bytes) {
  std::string text;
  std::array<char, 4096> piece{};
  char* in = const_cast<char*>(bytes.data());  // iconv does not write to it
  std::size_t in_left = bytes.size();
  for (char** from = &in;;) {
    char* out = piece.data();
    std::size_t out_left = piece.size();
    const bool is_done = ::iconv(decoder, from, &in_left, &out, &out_left) != std::size_t(-1);
    const bool is_full = !is_done && errno == E2BIG;
    text.append(piece.data(), out);
    if (is_full) continue;
    if (!is_done || from == nullptr) break;
    from = nullptr;  // the last letter may still wait for an accent
  }
  bytes.remove_prefix(bytes.size() - in_left);
  return text;
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

// Says whether `bytes` are UTF-8 that somebody saved below a declaration of something else, which
// makes `decoded` of it. By chance, text in an encoding of two bytes a character can be UTF-8 of
// two bytes a character; longer ones do not happen, nor do characters beyond ASCII where each has
// one byte (but for Shift_JIS's narrow katakana).
bool is_mislabelled_utf8(std::string_view bytes, const std::string& encoding,
                         std::string_view decoded) {
  return is_utf8(bytes) && bytes.find('\0') == std::string_view::npos &&
         (std::any_of(bytes.begin(), bytes.end(),
                      [](char c) { return static_cast<unsigned char>(c) >= 0xE0; }) ||
          (encoding != kShiftJis && character_count(decoded) == bytes.size()));
}

std::string decode_from(const std::string& name, const char* how, const std::string& bytes,
                        const std::string& path) {
  for (const std::string& known : names_for_iconv(name)) {
    const iconv_t handle = ::iconv_open("UTF-8", known.c_str());
    if (handle == iconv_t(-1)) continue;
    const std::unique_ptr<void, int (*)(iconv_t)> decoder(handle, ::iconv_close);
    std::string_view rest = bytes;
    std::string text = decoded(handle, rest);
    if (is_mislabelled_utf8(bytes, known, text)) return bytes;
    if (rest.empty()) return text;
    throw Error(ErrorKind::kData,
                cat(path, ": line ", line_of(text, text.size()), ": is not ", escaped(name),
                    ", the encoding that ", how, " (got \"",
                    around(bytes, bytes.size() - rest.size()), "\")"),
                kHint);
  }
  if (is_utf8(bytes)) return bytes;
  throw Error(
      ErrorKind::kData,
      cat(path, ": declares an encoding that is not known here (got \"", escaped(name), "\")"),
      kHint);
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
  if (bytes.starts_with("\xFF\xFE") || bytes.starts_with("\xFE\xFF")) return "UTF-16";
  // Every format that is read here begins with a character of ASCII, behind which is another.
  const auto is_wide = [&](std::size_t low) {
    const auto first = static_cast<unsigned char>(bytes[low]);
    return bytes[1 - low] == '\0' && (first >= ' ' || std::isspace(first) != 0);
  };
  if (bytes.size() < 4 || bytes.substr(2).starts_with("\0\0"sv)) return "";
  return is_wide(0) ? "UTF-16LE" : is_wide(1) ? "UTF-16BE" : "";
}

std::string decode_text(std::string bytes, EncodingIn where, const std::string& path) {
  if (bytes.starts_with("\xEF\xBB\xBF")) return bytes.substr(3);
  if (const std::string wide = wide_encoding(bytes); !wide.empty()) {
    return decode_from(wide, "its first bytes tell", bytes, path);
  }
  const std::string name = declared_encoding(bytes, where);
  if (name.empty() || name_matches(plain_word(name), kUnicode)) return bytes;
  return decode_from(name, "it declares", bytes, path);
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
