// Which file may be replaced: one that these programs wrote, which its first bytes say, and an
// empty one. Whatever else has the name of an output stays.
#pragma once

#include <string>
#include <string_view>

#include "shared/base/error.h"

namespace retina {

// Whether `path` is a file with content: nothing is lost where it is free or empty. Throws
// Error{kCannotCreate} when it is a folder, a pipe or a device; `option` named it.
bool has_file(const std::string& path, const std::string& option);

// Throws Error{kCannotCreate} unless `path` is free, empty, or holds `mark` in its first bytes;
// `option` named it.
void check_may_replace(const std::string& path, std::string_view mark, const std::string& option);

// The error of an output that somebody else wrote; `problem` says by what that is seen, or "".
Error not_ours_to_replace(const std::string& path, const std::string& problem,
                          const std::string& option);

}  // namespace retina
