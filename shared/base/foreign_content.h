// What stands in the place of the file that people mean to give: a Git LFS pointer, a web page, an
// archive. For the error of a reader that could not make sense of the file.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace retina {

struct ForeignContent {
  std::string what{};  // "a Git LFS pointer"
  std::string cure{};  // what to do about it: a hint
};

// By the first bytes of a file, of which 512 are enough. Nothing when they are neither of
// a known kind nor empty: text, as far as this can tell.
std::optional<ForeignContent> foreign_content(std::string_view start);

}  // namespace retina
