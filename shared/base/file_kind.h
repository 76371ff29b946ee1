// What a file is that was given in the place of another, by its first and last bytes: for messages
// alone: weights as other tools write them, and what foreign_content.h knows.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace retina {

struct FileKind {
  std::string what{};          // "is a safetensors file"
  std::string hint{};          // the next step; empty where only the reader knows it
  bool is_torch_save = false;  // weights that retina-convert --import reads
  bool is_old_model = false;   // TorchScript that retina-convert wrote once
};

// How much of either end is looked at.
inline constexpr std::size_t kKindBytes = 1 << 16;

// `begin` and `end`: the file's first and last kKindBytes, or all of a shorter one. Nothing for
// what it does not know, and for a zip that is cut short.
std::optional<FileKind> file_kind(std::string_view begin, std::string_view end);
// Throws as read_file.
std::optional<FileKind> file_kind_of(const std::string& path);

}  // namespace retina
