// The messages of libraries, on their way to a user.
#pragma once

#include <string>
#include <string_view>

namespace retina {

// What a library's message says: without backtraces, and without the lines and beginnings that name
// the library's own source ("Exception from src/inference/src/cpp/core.cpp:105:"). At most 300
// bytes, on one line; "no reason given" where nothing is left.
std::string library_reason(std::string_view message);

}  // namespace retina
