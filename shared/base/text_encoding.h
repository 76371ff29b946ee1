// Text that other programs wrote, on its way in: all that is understood and kept here is UTF-8, but
// files may say that they are encoded otherwise (an XML declaration, a byte order mark).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace retina {

// Returns true if a spreadsheet would compute a cell with this text; behind apostrophes, too. In
// CSV such a cell has one more apostrophe before it, which makes it text; a reader removes it.
bool begins_formula(std::string_view text);

// Returns the length of the UTF-8 character that `text`, which is not empty, begins with; 0 if it
// is not one.
std::size_t utf8_length(std::string_view text);

bool is_utf8(std::string_view text);

// Counts the characters of UTF-8 text: names need not be ASCII.
std::size_t character_count(std::string_view utf8);

// Returns "UTF-16" or "UTF-32" if a byte order mark says so, else "".
std::string wide_encoding(std::string_view bytes);

// Place where a file may say its encoding, beside a byte order mark, which each may have.
enum class EncodingIn {
  kNothing,
  kXml,      // <?xml version="1.0" encoding="GBK"?>
  kComment,  // "# -*- coding: GBK -*-" (PEP 263) among the comments and directives at the top
};

// Returns `bytes` of the file `path` as UTF-8 without a byte order mark: decoded by iconv from what
// the mark says or the file declares. Text that declares nothing, and UTF-8 under a name that does
// not fit it, comes back as it is, UTF-8 or not: see require_utf8(). Throws kData if iconv does not
// know the encoding, or the bytes are something else.
std::string decode_text(std::string bytes, EncodingIn where, const std::string& path);

// Throws kData, "PATH: line N: is not UTF-8 (got ...)", unless `text` is UTF-8 without zero bytes.
// It begins in line `line` of the file.
void require_utf8(std::string_view text, const std::string& path, std::size_t line = 1);

// Returns `text` with utf8proc's `options` (UTF8PROC_COMPOSE, ...); itself where it is not UTF-8.
std::string unicode_form(std::string_view text, int options);

// Returns a name for comparisons that ignore case, in any script. Text that is not UTF-8 comes back
// as it is.
std::string lower_case(std::string_view utf8);

// Returns a name's letters and digits, those of ASCII in lower case: "x_min", "XMin" and "x min"
// are the same.
std::string plain_word(std::string_view name);

// Cuts white space off either end, be it that of ASCII, U+00A0, U+3000 or a byte order mark.
std::string_view trimmed(std::string_view text);

// Encodes by RFC 4648, with padding.
std::string base64(std::string_view bytes);

}  // namespace retina
