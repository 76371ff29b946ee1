// Bytes and text for inside HTML.
#pragma once

#include <string>
#include <string_view>

namespace retina {

// & < > " ' replaced by entities; control characters other than newline and tab dropped.
std::string escape_html(std::string_view text);

// RFC 4648, with padding.
std::string base64(std::string_view bytes);

}  // namespace retina
