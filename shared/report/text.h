// Bytes and text for inside HTML.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace retina {

// & < > " ' replaced by entities; control characters other than newline and tab dropped.
std::string escape_html(std::string_view text);

// UTF-8 text cut after that many characters, with an ellipsis then.
std::string shortened(const std::string& text, std::size_t characters);

// RFC 4648, with padding.
std::string base64(std::string_view bytes);

}  // namespace retina
