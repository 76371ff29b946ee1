#include "shared/base/text_encoding.h"

#include <iconv.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

constexpr const char* kHint =
    "save the file as UTF-8 (iconv -f ITS_ENCODING -t UTF-8 FILE > NEW_FILE)";

std::size_t line_of(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  return static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')) + 1;
}

// What stands around a bad byte in its line.
std::string around(std::string_view text, std::size_t offset) {
  constexpr std::size_t kBefore = 30, kBehind = 10;
  std::size_t begin = text.rfind('\n', offset == 0 ? 0 : offset - 1);
  begin = begin == std::string_view::npos ? 0 : begin + 1;
  begin = std::max(begin, offset - std::min(offset, kBefore));
  while (begin < offset && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) ++begin;
  std::string_view shown = text.substr(begin, offset - begin + kBehind);
  shown = shown.substr(0, shown.find_first_of("\r\n", offset - begin + 1));
  return escaped(shown);
}

constexpr const char* kShiftJis = "CP932";

// Of a name of an encoding, what tells it from others: "UTF_8" and "utf-8" are one.
std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') plain += static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) plain += c;
  }
  return plain;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Whether text whose declaration can be read byte by byte needs no decoding: it is UTF-8, or a
// program that held it as UTF-16 wrote it as something else.
bool needs_no_decoding(const std::string& plain) {
  return is_one_of(plain, {"utf8", "utf8sig", "ascii", "usascii", "unicode", "utf16", "utf16le",
                           "utf16be", "utf32", "ucs2", "ucs4"});
}

// iconv's names of what a file calls by the name, the likeliest first. As browsers do, of families
// the largest is taken: files that say GB2312 have characters of its successors.
std::vector<std::string> names_for_iconv(const std::string& name) {
  const std::string plain = plain_name(name);
  if (is_one_of(plain, {"gb2312", "gbk", "cp936", "windows936", "euccn"})) return {"GB18030"};
  if (is_one_of(plain, {"shiftjis", "sjis", "windows31j", "mskanji"})) return {kShiftJis};
  if (is_one_of(plain, {"euckr", "ksc56011987", "ksc5601"})) return {"CP949"};
  return {name, plain};
}

class Decoder {
 public:
  explicit Decoder(const std::string& name) : handle_(::iconv_open("UTF-8", name.c_str())) {}
  ~Decoder() {
    if (is_known()) ::iconv_close(handle_);
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  bool is_known() const { return handle_ != iconv_t(-1); }

  // As far as it goes; what could not be decoded stays in `bytes`.
  std::string decode(std::string_view& bytes) {
    std::string text;
    std::array<char, 4096> piece{};
    while (!bytes.empty()) {
      // iconv does not write to what it reads.
      char* in = const_cast<char*>(bytes.data());
      char* out = piece.data();
      std::size_t in_left = bytes.size(), out_left = piece.size();
      const bool is_done = ::iconv(handle_, &in, &in_left, &out, &out_left) != std::size_t(-1);
      const bool is_stuck = !is_done && errno != E2BIG;
      text.append(piece.data(), piece.size() - out_left);
      bytes.remove_prefix(bytes.size() - in_left);
      if (is_stuck) return text;
    }
    // The last letter may still wait for an accent.
    char* out = piece.data();
    std::size_t out_left = piece.size();
    ::iconv(handle_, nullptr, nullptr, &out, &out_left);
    return text.append(piece.data(), piece.size() - out_left);
  }

 private:
  iconv_t handle_;
};

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

std::size_t character_count(std::string_view utf8) {
  return static_cast<std::size_t>(std::count_if(utf8.begin(), utf8.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// Whether `bytes` are UTF-8 that somebody saved below a declaration of something else, which makes
// `decoded` of it. By chance, text in an encoding of two bytes a character can be UTF-8 of two
// bytes a character; longer ones do not happen, nor do characters beyond ASCII where each has one
// byte (but for Shift_JIS's narrow katakana).
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
    Decoder decoder(known);
    if (!decoder.is_known()) continue;
    std::string_view rest = bytes;
    std::string text = decoder.decode(rest);
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

// The encoding that the file's first bytes show, and how many of them only do that.
struct Mark {
  const char* name = nullptr;
  std::size_t size_bytes = 0;
};

Mark mark_of(std::string_view bytes) {
  using namespace std::string_view_literals;
  for (const auto& [mark, name] : {std::pair{"\xFF\xFE\0\0"sv, "UTF-32LE"},
                                   {"\0\0\xFE\xFF"sv, "UTF-32BE"},
                                   {"\xFF\xFE"sv, "UTF-16LE"},
                                   {"\xFE\xFF"sv, "UTF-16BE"},
                                   {"\xEF\xBB\xBF"sv, "UTF-8"}}) {
    if (bytes.starts_with(mark)) return {name, mark.size()};
  }
  // Every format that is read here begins with a character of ASCII.
  if (bytes.size() >= 2 && bytes[0] != '\0' && bytes[1] == '\0') return {"UTF-16LE", 0};
  if (bytes.size() >= 2 && bytes[0] == '\0' && bytes[1] != '\0') return {"UTF-16BE", 0};
  return {};
}

// The letters of a name of an encoding that `text` begins with, behind white space and quotes.
std::string name_at(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n\"'"), text.size()));
  const auto end = std::find_if_not(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == ':';
  });
  return std::string(text.begin(), end);
}

std::string declared_in_xml(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  if (!text.starts_with("<?xml")) return "";
  text = text.substr(0, text.find("?>"));
  const std::size_t at = text.find("encoding");
  if (at == std::string_view::npos) return "";
  const std::size_t equals = text.find('=', at);
  return equals == std::string_view::npos ? "" : name_at(text.substr(equals + 1));
}

std::string declared_in_comment(std::string_view text) {
  while (text.starts_with('#') || text.starts_with('%') || text.starts_with("---") ||
         text.starts_with('\n') || text.starts_with('\r')) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    for (const char* word : {"coding:", "coding="}) {
      const std::size_t at = line.find(word);
      if (line.starts_with('#') && at != std::string_view::npos) {
        return name_at(line.substr(at + std::string_view(word).size()));
      }
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return "";
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

std::string decode_text(std::string bytes, EncodingIn where, const std::string& path) {
  const Mark mark = mark_of(bytes);
  bytes.erase(0, mark.size_bytes);
  if (mark.name != nullptr) {
    if (std::string_view(mark.name) == "UTF-8") return bytes;
    return decode_from(mark.name, "its first bytes tell", bytes, path);
  }
  const std::string name = where == EncodingIn::kXml       ? declared_in_xml(bytes)
                           : where == EncodingIn::kComment ? declared_in_comment(bytes)
                                                           : "";
  if (name.empty() || needs_no_decoding(plain_name(name))) return bytes;
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

std::string lower_case(std::string_view utf8) {
  if (!is_utf8(utf8)) return std::string(utf8);
  std::string lower;
  while (!utf8.empty()) {
    utf8proc_int32_t character = 0;
    utf8.remove_prefix(static_cast<std::size_t>(next_character(utf8, character)));
    std::array<utf8proc_uint8_t, 4> bytes{};
    const auto size = utf8proc_encode_char(utf8proc_tolower(character), bytes.data());
    lower.append(bytes.begin(), bytes.begin() + size);
  }
  return lower;
}

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto byte = [&](std::size_t i) -> std::uint32_t {
    return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0U;
  };
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::uint32_t group = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    out += kDigits[group >> 18 & 63];
    out += kDigits[group >> 12 & 63];
    out += i + 1 < bytes.size() ? kDigits[group >> 6 & 63] : '=';
    out += i + 2 < bytes.size() ? kDigits[group & 63] : '=';
  }
  return out;
}

}  // namespace retina
