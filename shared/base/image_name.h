// How messages, pages and drawings name an image of a data set: so that people find their
// photograph.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace retina {

// "street/17.jpg (image 64)"; "image 64" where the file's name is not known, as in sets of earlier
// versions. Escaped as printable.h does it.
std::string image_name(std::int64_t id, std::string_view file_name);

}  // namespace retina
