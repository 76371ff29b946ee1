// Text of a foreign file on its way to a terminal or a log.
#pragma once

#include <string>
#include <string_view>

namespace retina {

// For error messages: the first 80 bytes; anything but printable ASCII becomes "?", so that a
// message stays on one line.
std::string printable(std::string_view text);

// For names in any language (of classes, of images): control characters, which would move the
// cursor or write another line, become "\n", "\t", "\x1b"; all other UTF-8 stays. Bytes that are
// not UTF-8 are escaped too.
std::string escaped(std::string_view text);

// The text as it is where it is UTF-8, as JSON wants it; other bytes become "\\x80".
std::string as_utf8(std::string_view text);

}  // namespace retina
