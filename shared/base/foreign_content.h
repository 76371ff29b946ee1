// Recognises files given by mistake, by their first and last bytes: a Git LFS pointer, a web page,
// an archive, weights as other tools write them. For the error of a reader that could not make
// sense of the file.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace retina {

struct ForeignContent {
  std::string what{};          // "a Git LFS pointer"
  std::string hint{};          // the user's next step; empty if only the reader knows it
  bool is_torch_save = false;  // weights that retina-convert --import reads
};

// Recognises a file by its first bytes, of which 512 are enough. Returns nothing if they are
// neither of a known kind nor empty: text, as far as this can tell.
std::optional<ForeignContent> foreign_content(std::string_view start);

// Returns the tool that wrote `text`, the whole or parts of a JSON file, by its keys: "Label
// Studio". Returns nothing for keys that many tools use.
std::optional<ForeignContent> foreign_json(std::string_view text);

// Returns the tool that made a pickle, by the modules that it names; nothing for unknown ones.
std::optional<ForeignContent> foreign_model(std::string_view pickle);

// Bytes at either end of a file that file_kind() looks at.
inline constexpr std::size_t kKindBytes = 1 << 16;

// Recognises a file, weights above all, by `begin` and `end`, its first and last kKindBytes, or all
// of a shorter one. Returns nothing for unknown kinds, and for a zip that is cut short.
std::optional<ForeignContent> file_kind(std::string_view begin, std::string_view end);
// Calls file_kind() for a file. Throws as read_file.
std::optional<ForeignContent> file_kind_of(const std::string& path);

}  // namespace retina
