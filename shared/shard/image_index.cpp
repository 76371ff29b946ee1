#include "shared/shard/image_index.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>
#include <system_error>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/printable.h"
#include "shared/shard/damaged.h"
#include "shared/shard/little_endian.h"

namespace retina {
namespace {

// Part of the format; never renumber.
constexpr std::string_view kIndexMagic = "RIDX";
constexpr std::size_t kIndexVersionAt = 4, kEntryBytesAt = 6, kCountAt = 8, kHashAt = 16,
                      kHeaderBytes = 24;
constexpr std::uint16_t kEntryBytes = 32;

int side_px(std::string_view bytes, std::size_t at, const std::string& name) {
  const auto value = get<std::uint32_t>(bytes, at);
  if (value == 0 || value > std::numeric_limits<std::int32_t>::max()) {
    fail_damaged(name, cat("impossible image size (got ", value, " pixels)"));
  }
  return static_cast<int>(value);
}

// The part after the entries: a row of labels for each image, then its file name, then a tile's
// place.
void put_rows(std::string& content, const std::vector<IndexEntry>& entries) {
  for (const IndexEntry& entry : entries) {
    put(content, static_cast<std::uint32_t>(entry.labels.size()));
    for (const int label : entry.labels) put(content, static_cast<std::uint32_t>(label));
  }
  for (const IndexEntry& entry : entries) {
    put(content, static_cast<std::uint32_t>(entry.file_name.size()));
    content += entry.file_name;
  }
  for (const IndexEntry& entry : entries) {
    if (!entry.tile) continue;
    for (const int number :
         {entry.tile->x, entry.tile->y, entry.tile->image_width, entry.tile->image_height}) {
      put(content, static_cast<std::uint32_t>(number));
    }
  }
}

// Reads that part from front to back; `name` begins every error.
class IndexRows {
 public:
  IndexRows(std::string_view rows, const std::string& name) : rows_(rows), name_(name) {}

  void read_labels(IndexEntry& entry) {
    const std::uint32_t count = number();
    // An image without boxes may have a class itself.
    if (count > std::max(entry.trainable_count, entry.box_count == 0 ? 1U : 0U)) {
      fail_damaged(name_, cat("has more classes than boxes (got ", count, " classes, ",
                              entry.trainable_count, " boxes)"));
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto label = static_cast<int>(number());
      if (label < 0 || (i > 0 && label <= entry.labels.back())) {
        fail_damaged(name_, cat("has labels that do not ascend (got ", label, ")"));
      }
      entry.labels.push_back(label);
    }
  }
  void read_file_name(IndexEntry& entry) { entry.file_name = bytes(number()); }
  void read_tile(IndexEntry& entry) {
    TilePlace tile;
    for (int* const number : {&tile.x, &tile.y, &tile.image_width, &tile.image_height}) {
      *number = static_cast<int>(this->number());
    }
    if (tile.x < 0 || tile.y < 0 || tile.image_width < 1 || tile.image_height < 1 ||
        tile.x > tile.image_width - entry.width || tile.y > tile.image_height - entry.height) {
      fail_damaged(name_, cat("has a tile outside its image (got ",
                              tile_text(tile, entry.width, entry.height), " of ", tile.image_width,
                              "x", tile.image_height, ")"));
    }
    entry.tile = tile;
  }
  void finish() const {
    if (!rows_.empty()) fail_damaged(name_, cat("has ", rows_.size(), " bytes too many"));
  }

 private:
  std::string_view bytes(std::size_t count) {
    if (rows_.size() < count) fail_damaged(name_, "ends inside its labels or file names");
    const std::string_view taken = rows_.substr(0, count);
    rows_.remove_prefix(count);
    return taken;
  }
  std::uint32_t number() { return get<std::uint32_t>(bytes(sizeof(std::uint32_t)), 0); }

  std::string_view rows_;
  const std::string& name_;
};

}  // namespace

bool is_tiled(const std::vector<IndexEntry>& index) {
  return !index.empty() && index.front().tile.has_value();
}

std::string image_name(const IndexEntry& entry) {
  return image_name(entry.image_id, entry.file_name);
}

std::string record_name(const IndexEntry& entry) {
  const std::string& file = entry.file_name;
  const std::string tile =
      entry.tile ? cat(", ", tile_text(*entry.tile, entry.width, entry.height)) : "";
  return cat("record ", entry.place, file.empty() ? "" : cat(" (", escaped(file), tile, ")"));
}

FileNames file_names_of(const std::vector<IndexEntry>& index) {
  FileNames names;
  for (const IndexEntry& entry : index) {
    if (!entry.file_name.empty()) names.emplace(entry.image_id, entry.file_name);
  }
  return names;
}

std::vector<int> entry_labels(const Record& record) {
  if (record.label) return {*record.label};
  std::set<int> labels;
  for (const RecordAnnotation& annotation : record.annotations) {
    if (is_trainable(annotation, record.width, record.height)) labels.insert(annotation.label);
  }
  return {labels.begin(), labels.end()};
}

std::string encode_index(const std::vector<IndexEntry>& entries) {
  std::string content;
  content.reserve(entries.size() * kEntryBytes);
  for (const IndexEntry& entry : entries) {
    put(content, entry.image_id);
    put(content, static_cast<std::uint32_t>(entry.width));
    put(content, static_cast<std::uint32_t>(entry.height));
    put(content, entry.box_count);
    put(content, entry.trainable_count);
    put(content, entry.shard);
    put(content, entry.place);
  }
  put_rows(content, entries);
  const bool has_tiles = is_tiled(entries);
  for (const IndexEntry& entry : entries) RETINA_CHECK(entry.tile.has_value() == has_tiles);
  std::string bytes(kIndexMagic);
  put(bytes, has_tiles ? kIndexVersion : kUntiledIndexVersion);
  put(bytes, kEntryBytes);
  put(bytes, static_cast<std::uint64_t>(entries.size()));
  put(bytes, xxh3(bytes + content));
  return bytes + content;
}

bool is_index(const std::string& path) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) return false;
  const std::string bytes = read_file(path);
  return bytes.size() >= kHeaderBytes && bytes.starts_with(kIndexMagic) &&
         get<std::uint16_t>(bytes, kEntryBytesAt) == kEntryBytes;
}

std::vector<IndexEntry> decode_index(std::string_view bytes, const std::string& name) {
  if (bytes.size() < kHeaderBytes || bytes.substr(0, kIndexMagic.size()) != kIndexMagic) {
    fail_damaged(name, "is not an image index of a shard set");
  }
  // Lengths before the hash, which is over what they say; labels, names and
  // tiles came with versions 2, 3 and 4.
  const auto version = get<std::uint16_t>(bytes, kIndexVersionAt);
  if (version > kIndexVersion) fail_newer(name, "index", version, kIndexVersion);
  const std::string_view content = bytes.substr(kHeaderBytes);
  const auto count = get<std::uint64_t>(bytes, kCountAt);
  const bool has_labels = version > 1, has_file_names = version > 2, has_tiles = version > 3;
  if (get<std::uint16_t>(bytes, kEntryBytesAt) != kEntryBytes ||
      count > content.size() / kEntryBytes ||
      (!has_labels && content.size() != count * kEntryBytes)) {
    fail_damaged(name, cat("has a wrong length (got ", content.size(), " bytes of entries, want ",
                           count, " entries of ", kEntryBytes, ")"));
  }
  Hasher hasher;
  hasher.update(bytes.data(), kHashAt);
  hasher.update(content.data(), content.size());
  if (version == 0 || get<std::uint64_t>(bytes, kHashAt) != hasher.digest()) {
    fail_damaged(name, "is damaged (its checksum does not match)");
  }
  // The entries of fixed length, then the rows.
  std::vector<IndexEntry> entries(count);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string_view entry = content.substr(i * kEntryBytes, kEntryBytes);
    entries[i] = {.image_id = get<std::int64_t>(entry, 0),
                  .width = side_px(entry, 8, name),
                  .height = side_px(entry, 12, name),
                  .box_count = get<std::uint32_t>(entry, 16),
                  .trainable_count = get<std::uint32_t>(entry, 20),
                  .shard = get<std::uint32_t>(entry, 24),
                  .place = get<std::uint32_t>(entry, 28)};
  }
  IndexRows rows(content.substr(count * kEntryBytes), name);
  for (IndexEntry& entry : entries) {
    if (has_labels) rows.read_labels(entry);
  }
  for (IndexEntry& entry : entries) {
    if (has_file_names) rows.read_file_name(entry);
  }
  for (IndexEntry& entry : entries) {
    if (has_tiles) rows.read_tile(entry);
  }
  rows.finish();
  return entries;
}

}  // namespace retina
