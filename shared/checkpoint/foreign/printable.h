// Names that a foreign file gives, for error messages.
#pragma once

#include <string>
#include <string_view>

namespace retina {

// The first 80 bytes; what is no printable ASCII becomes "?", so a message stays one line.
std::string printable(std::string_view text);

}  // namespace retina
