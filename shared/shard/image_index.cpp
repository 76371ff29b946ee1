#include "shared/shard/image_index.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

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

// Writes the part after the entries: a row of labels for each image, then its file name, a tile's
// place and the image's hash.
void put_rows(std::string& bytes, const ImageIndex& index) {
  for (const IndexEntry& entry : index) {
    put(bytes, static_cast<std::uint32_t>(entry.labels.size()));
    for (const int label : entry.labels) put(bytes, static_cast<std::uint32_t>(label));
  }
  for (const IndexEntry& entry : index) {
    put(bytes, static_cast<std::uint32_t>(entry.file_name.size()));
    bytes += entry.file_name;
  }
  for (const IndexEntry& entry : index) {
    if (!entry.tile) continue;
    for (const int number :
         {entry.tile->x, entry.tile->y, entry.tile->image_width, entry.tile->image_height}) {
      put(bytes, static_cast<std::uint32_t>(number));
    }
  }
  for (const IndexEntry& entry : index) put(bytes, entry.image_xxh3);
}

}  // namespace

class IndexDecoder {
 public:
  IndexDecoder(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  ImageIndex decode(std::optional<std::uint64_t> want_xxh3) {
    const std::string_view header = take(std::min(kHeaderBytes, bytes_.size()));
    if (header.size() < kHeaderBytes || !header.starts_with(kIndexMagic)) {
      fail_damaged(name_, "is not an image index of a shard set");
    }
    // Lengths are checked before the hash, which covers as many bytes as they say.
    const auto version = get<std::uint16_t>(header, kIndexVersionAt);
    if (version != kIndexVersion) fail_version(name_, "index", version, kIndexVersion);
    const auto count = get<std::uint64_t>(header, kCountAt);
    if (get<std::uint16_t>(header, kEntryBytesAt) != kEntryBytes || count > left() / kEntryBytes) {
      fail_damaged(name_, cat("has a wrong length (got ", left(), " bytes of entries, want ", count,
                              " entries of ", kEntryBytes, ")"));
    }
    check_hashes(header, want_xxh3);
    read_images(count);
    // More than the rows can have: unused room takes address space, not memory.
    index_.labels_.ends.reserve(count);
    index_.labels_.values.reserve(left() / sizeof(std::uint32_t));
    for (const ImageIndex::Image& image : index_.images_) read_labels(image);
    index_.file_names_.ends.reserve(count);
    index_.file_names_.values.reserve(left());
    for (std::size_t i = 0; i < count; ++i) index_.file_names_.push_back(take(number()));
    const bool has_tiles = left() > count * sizeof(std::uint64_t);
    for (std::size_t i = 0; has_tiles && i < count; ++i) read_tile(index_.images_[i]);
    for (ImageIndex::Image& image : index_.images_) {
      image.image_xxh3 = get<std::uint64_t>(take(sizeof(std::uint64_t)), 0);
    }
    if (left() > 0) fail_damaged(name_, cat("has ", left(), " bytes too many"));
    return std::move(index_);
  }

 private:
  void check_hashes(std::string_view header, std::optional<std::uint64_t> want_xxh3) const {
    Hasher own;
    own.update(header.data(), kHashAt);
    own.update(bytes_.data() + kHeaderBytes, left());
    if (get<std::uint64_t>(header, kHashAt) != own.digest()) {
      fail_damaged(name_, "is damaged (its checksum does not match)");
    }
    if (want_xxh3 && xxh3(bytes_) != *want_xxh3) {
      fail_damaged(name_, "belongs to another data set than the manifest");
    }
  }

  void read_images(std::size_t count) {
    index_.images_.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::string_view entry = take(kEntryBytes);
      index_.images_.push_back({.image_id = get<std::int64_t>(entry, 0),
                                .width = side_px(entry, 8, name_),
                                .height = side_px(entry, 12, name_),
                                .box_count = get<std::uint32_t>(entry, 16),
                                .trainable_count = get<std::uint32_t>(entry, 20),
                                .shard = get<std::uint32_t>(entry, 24),
                                .place = get<std::uint32_t>(entry, 28)});
    }
  }

  void read_labels(const ImageIndex::Image& image) {
    const std::uint32_t count = number();
    // An image without boxes may have a class itself.
    if (count > std::max(image.trainable_count, image.box_count == 0 ? 1U : 0U)) {
      fail_damaged(name_, cat("has more classes than boxes (got ", count, " classes, ",
                              image.trainable_count, " boxes)"));
    }
    labels_.clear();
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto label = static_cast<int>(number());
      if (label < 0 || (i > 0 && label <= labels_.back())) {
        fail_damaged(name_, cat("has labels that do not ascend (got ", label, ")"));
      }
      labels_.push_back(label);
    }
    index_.labels_.push_back(labels_);
  }

  void read_tile(const ImageIndex::Image& image) {
    TilePlace tile;
    for (int* const number : {&tile.x, &tile.y, &tile.image_width, &tile.image_height}) {
      *number = static_cast<int>(this->number());
    }
    if (tile.x < 0 || tile.y < 0 || tile.image_width < 1 || tile.image_height < 1 ||
        tile.x > tile.image_width - image.width || tile.y > tile.image_height - image.height) {
      fail_damaged(name_, cat("has a tile outside its image (got ",
                              tile_text(tile, image.width, image.height), " of ", tile.image_width,
                              "x", tile.image_height, ")"));
    }
    index_.tiles_.push_back(tile);
  }

  std::size_t left() const { return bytes_.size() - at_; }
  std::uint32_t number() { return get<std::uint32_t>(take(sizeof(std::uint32_t)), 0); }

  // Returns the next bytes.
  std::string_view take(std::size_t count) {
    if (left() < count) fail_damaged(name_, "ends inside its rows");
    return bytes_.substr(std::exchange(at_, at_ + count), count);
  }

  std::string_view bytes_;
  const std::string& name_;
  std::size_t at_ = 0;
  std::vector<int> labels_{};
  ImageIndex index_{};
};

bool operator==(const IndexEntry& a, const IndexEntry& b) {
  const auto numbers = [](const IndexEntry& entry) {
    return std::tie(entry.image_id, entry.width, entry.height, entry.box_count,
                    entry.trainable_count, entry.shard, entry.place, entry.file_name,
                    entry.image_xxh3, entry.tile);
  };
  return numbers(a) == numbers(b) && std::ranges::equal(a.labels, b.labels);
}

template <class T>
void ImageIndex::Rows<T>::push_back(std::span<const T> row) {
  values.insert(values.end(), row.begin(), row.end());
  RETINA_CHECK(values.size() <= std::numeric_limits<std::uint32_t>::max());
  ends.push_back(static_cast<std::uint32_t>(values.size()));
}

template <class T>
std::span<const T> ImageIndex::Rows<T>::operator[](std::size_t place) const {
  const std::size_t begin = place == 0 ? 0 : ends[place - 1];
  return std::span(values).subspan(begin, ends[place] - begin);
}

ImageIndex::ImageIndex(std::initializer_list<IndexEntry> entries)
    : ImageIndex(std::span(entries.begin(), entries.size())) {}

ImageIndex::ImageIndex(std::span<const IndexEntry> entries) {
  for (const IndexEntry& entry : entries) push_back(entry);
}

void ImageIndex::push_back(const IndexEntry& entry) {
  RETINA_CHECK(tiles_.size() == (entry.tile ? size() : 0));
  images_.push_back({.image_id = entry.image_id,
                     .width = entry.width,
                     .height = entry.height,
                     .box_count = entry.box_count,
                     .trainable_count = entry.trainable_count,
                     .shard = entry.shard,
                     .place = entry.place,
                     .image_xxh3 = entry.image_xxh3});
  labels_.push_back(entry.labels);
  file_names_.push_back(entry.file_name);
  if (entry.tile) tiles_.push_back(*entry.tile);
}

IndexEntry ImageIndex::operator[](std::size_t place) const {
  RETINA_CHECK(place < size(), "image ", place, " of ", size());
  const Image& image = images_[place];
  const std::span<const char> name = file_names_[place];
  IndexEntry entry{.image_id = image.image_id,
                   .width = image.width,
                   .height = image.height,
                   .box_count = image.box_count,
                   .trainable_count = image.trainable_count,
                   .shard = image.shard,
                   .place = image.place,
                   .labels = labels_[place],
                   .file_name = {name.data(), name.size()},
                   .image_xxh3 = image.image_xxh3};
  if (!tiles_.empty()) entry.tile = tiles_[place];
  return entry;
}

ImageIndex::Iterator ImageIndex::begin() const {
  return {*this, 0};
}

ImageIndex::Iterator ImageIndex::end() const {
  return {*this, size()};
}

bool is_tiled(const ImageIndex& index) {
  return !index.empty() && index.front().tile.has_value();
}

std::string image_name(const IndexEntry& entry) {
  return image_name(entry.image_id, entry.file_name);
}

std::string record_name(const IndexEntry& entry) {
  const std::string_view file = entry.file_name;
  const std::string tile =
      entry.tile ? cat(", ", tile_text(*entry.tile, entry.width, entry.height)) : "";
  return cat("record ", entry.place, file.empty() ? "" : cat(" (", escaped(file), tile, ")"));
}

FileNames file_names_of(const ImageIndex& index) {
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

std::string encode_index(const ImageIndex& index) {
  std::string bytes(kIndexMagic);
  bytes.reserve(kHeaderBytes + index.size() * kEntryBytes);
  put(bytes, kIndexVersion);
  put(bytes, kEntryBytes);
  put(bytes, static_cast<std::uint64_t>(index.size()));
  put(bytes, std::uint64_t{0});  // the hash of everything before and after it
  for (const IndexEntry& entry : index) {
    put(bytes, entry.image_id);
    put(bytes, static_cast<std::uint32_t>(entry.width));
    put(bytes, static_cast<std::uint32_t>(entry.height));
    put(bytes, entry.box_count);
    put(bytes, entry.trainable_count);
    put(bytes, entry.shard);
    put(bytes, entry.place);
  }
  put_rows(bytes, index);
  Hasher hasher;
  hasher.update(bytes.data(), kHashAt);
  hasher.update(bytes.data() + kHeaderBytes, bytes.size() - kHeaderBytes);
  std::string hash;
  put(hash, hasher.digest());
  return bytes.replace(kHashAt, hash.size(), hash);
}

bool is_index(const std::string& path) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) return false;
  const std::string bytes = read_start(path, kHeaderBytes);
  return bytes.size() == kHeaderBytes && bytes.starts_with(kIndexMagic) &&
         get<std::uint16_t>(bytes, kEntryBytesAt) == kEntryBytes;
}

ImageIndex decode_index(std::string_view bytes, const std::string& name,
                        std::optional<std::uint64_t> want_xxh3) {
  return IndexDecoder(bytes, name).decode(want_xxh3);
}

}  // namespace retina
