// The image index: what the epoch plan must know about every image without reading a record.
// Layout in FORMAT.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "shared/shard/record.h"

namespace retina {

// The newest version in an index header. Part of the format; never renumber.
inline constexpr std::uint16_t kIndexVersion = 4;
// An index without tiles keeps the version that earlier readers open.
inline constexpr std::uint16_t kUntiledIndexVersion = 3;

// One image, in the order of (shard, place).
struct IndexEntry {
  std::int64_t image_id = 0;
  int width = 0;  // of the stored image, pixels
  int height = 0;
  std::uint32_t box_count = 0;        // all annotations, crowds and degenerate boxes too
  std::uint32_t trainable_count = 0;  // those of is_trainable(annotation, width, height)
  std::uint32_t shard = 0;            // place of the shard in manifest.shards
  std::uint32_t place = 0;            // the record's key inside the shard
  // Classes of the trainable boxes, each once, ascending; of a classification set's image its one
  // class. Version 1 has none.
  std::vector<int> labels = {};
  std::string file_name = {};  // the record's; versions 1 and 2 have none
  // Of a tile, whose image_id and file_name are those of the whole image. In a set all records are
  // tiles, or none.
  std::optional<TilePlace> tile = {};

  friend bool operator==(const IndexEntry&, const IndexEntry&) = default;
};

// Whether a set's records are tiles.
bool is_tiled(const std::vector<IndexEntry>& index);

// What people call the image, see shared/base/printable.h.
std::string image_name(const IndexEntry& entry);

// "record 7 (street/17.jpg)", of the entry's shard, with a tile's place behind the name; "record 7"
// where the name is not known.
std::string record_name(const IndexEntry& entry);

// File names by image id; images without one are missing.
using FileNames = std::unordered_map<std::int64_t, std::string>;
FileNames file_names_of(const std::vector<IndexEntry>& index);

// The labels of a record's entry.
std::vector<int> entry_labels(const Record& record);

std::string encode_index(const std::vector<IndexEntry>& entries);

// Whether the file is one of our indexes, even a damaged one.
bool is_index(const std::string& path);

// Throws kData: damaged (own hash), written by a newer version. Errors begin with `name`.
std::vector<IndexEntry> decode_index(std::string_view bytes, const std::string& name);

}  // namespace retina
