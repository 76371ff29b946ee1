// Text of a foreign file or library on its way to a terminal or a log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace retina {

// A name in a message has its first characters and "…": a file may hold one of a megabyte.
inline constexpr std::size_t kNameCharacters = 200;
// For texts that must stay whole.
inline constexpr std::size_t kWholeText = std::string_view::npos;

// For names in any language (of classes, of images): control characters, which would move the
// cursor or write another line, become "\n", "\t", "\x1b"; so do, byte by byte, invisible ones that
// turn the direction of a line or hide in it. All other UTF-8 stays. Bytes that are not UTF-8 are
// escaped too. Behind `max_characters` of the text it ends with "…".
std::string escaped(std::string_view text, std::size_t max_characters = kNameCharacters);

// The rule for names of classes, which lines of CSV and of lists must hold: control characters in a
// row become one space, those at either end nothing. The rest stays.
std::string one_line(std::string_view text);

// Returns the name of a data set's image in messages, pages and drawings, by which people find
// their photograph: "street/17.jpg (image 64)", escaped; "image 64" without a file name.
std::string image_name(std::int64_t id, std::string_view file_name);

// The text as it is where it is UTF-8, as JSON wants it; other bytes become "\\x80".
std::string as_utf8(std::string_view text);

// Returns a library's message without backtraces, and without the lines and beginnings that name
// the library's own source ("Exception from src/inference/src/cpp/core.cpp:105:"): at most 300
// bytes, on one line; "no reason given" where nothing is left.
std::string library_reason(std::string_view message);

}  // namespace retina
