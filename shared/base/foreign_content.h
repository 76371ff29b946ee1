// What stands in the place of the file that people mean to give, by its first and last bytes: a Git
// LFS pointer, a web page, an archive, weights as other tools write them. For the error of a reader
// that could not make sense of the file.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace retina {

struct ForeignContent {
  std::string what{};          // "a Git LFS pointer"
  std::string cure{};          // the next step, a hint; empty where only the reader knows it
  bool is_torch_save = false;  // weights that retina-convert --import reads
};

// By the first bytes of a file, of which 512 are enough. Nothing when they are neither of
// a known kind nor empty: text, as far as this can tell.
std::optional<ForeignContent> foreign_content(std::string_view start);

// Whose JSON `text` is, the whole or parts of it, by keys that it has: "Label Studio". Nothing for
// keys that many tools use.
std::optional<ForeignContent> foreign_json(std::string_view text);

// What a text is that does not begin as JSON does, by its first line: "CSV"; or "".
std::string foreign_text(std::string_view start);

// Whose model a pickle is that names modules of other tools; nothing for others.
std::optional<ForeignContent> foreign_model(std::string_view pickle);

// How much of either end is looked at for it.
inline constexpr std::size_t kKindBytes = 1 << 16;

// Says what a file is that was given in the place of weights or a model. `begin` and `end`: the
// file's first and last kKindBytes, or all of a shorter one. Nothing for what it does not know, and
// for a zip that is cut short.
std::optional<ForeignContent> file_kind(std::string_view begin, std::string_view end);
// Throws as read_file.
std::optional<ForeignContent> file_kind_of(const std::string& path);

}  // namespace retina
