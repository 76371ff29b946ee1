// The image index: the epoch plan's knowledge of every image, without reading a record. Layout in
// FORMAT.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "shared/shard/record.h"

namespace retina {

// Part of the format; never renumber.
inline constexpr std::uint16_t kIndexVersion = 6;

// One image. Its labels and file name are borrowed: from its index, or from the code that makes the
// entry for one.
struct IndexEntry {
  std::int64_t image_id = 0;
  int width = 0;  // the stored image's, px
  int height = 0;
  std::uint32_t box_count = 0;        // all annotations, crowds and degenerate boxes too
  std::uint32_t trainable_count = 0;  // those of is_trainable(annotation, width, height)
  std::uint32_t shard = 0;            // place of the shard in manifest.shards
  std::uint32_t place = 0;            // the record's key inside the shard
  // Classes of the trainable boxes, each once, ascending; in a classification set the image's one
  // class.
  std::span<const int> labels = {};
  std::string_view file_name = {};  // the record's
  std::uint64_t image_xxh3 = 0;     // hash of the stored image's bytes: equal for equal images
  // Place of a tile, whose image_id and file_name are those of the whole image. In a set all
  // records are tiles, or none.
  std::optional<TilePlace> tile = {};

  friend bool operator==(const IndexEntry& a, const IndexEntry& b);
};

// The images of a set in the order of (shard, place), in little memory: a few blocks for millions
// of images, none per image.
class ImageIndex {
 public:
  class Iterator;

  ImageIndex() = default;
  ImageIndex(std::initializer_list<IndexEntry> entries);
  explicit ImageIndex(std::span<const IndexEntry> entries);

  // Copies the entry's borrowed data. All entries have a tile, or none.
  void push_back(const IndexEntry& entry);

  std::size_t size() const { return images_.size(); }
  bool empty() const { return images_.empty(); }
  // Returns an entry that borrows from this index until it changes or ends.
  IndexEntry operator[](std::size_t place) const;
  IndexEntry front() const { return (*this)[0]; }
  IndexEntry back() const { return (*this)[size() - 1]; }
  Iterator begin() const;
  Iterator end() const;

  friend bool operator==(const ImageIndex&, const ImageIndex&) = default;

 private:
  struct Image {  // as IndexEntry
    std::int64_t image_id = 0;
    int width = 0, height = 0;
    std::uint32_t box_count = 0, trainable_count = 0, shard = 0, place = 0;
    std::uint64_t image_xxh3 = 0;
    friend bool operator==(const Image&, const Image&) = default;
  };
  // Rows of values, one for each image.
  template <class T>
  struct Rows {
    std::vector<T> values{};
    std::vector<std::uint32_t> ends{};  // in `values`

    void push_back(std::span<const T> row);
    std::span<const T> operator[](std::size_t place) const;
    friend bool operator==(const Rows&, const Rows&) = default;
  };
  friend class IndexDecoder;

  std::vector<Image> images_{};
  Rows<int> labels_{};
  Rows<char> file_names_{};
  std::vector<TilePlace> tiles_{};  // empty, or one for each
};

class ImageIndex::Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = IndexEntry;
  using difference_type = std::ptrdiff_t;
  using pointer = const IndexEntry*;
  using reference = IndexEntry;

  Iterator(const ImageIndex& index, std::size_t place) : index_(&index), place_(place) {}
  IndexEntry operator*() const { return (*index_)[place_]; }
  Iterator& operator++() {
    ++place_;
    return *this;
  }
  friend bool operator==(const Iterator&, const Iterator&) = default;

 private:
  const ImageIndex* index_;
  std::size_t place_;
};

// Returns true if a set's records are tiles.
bool is_tiled(const ImageIndex& index);

// Returns the image's name for people, see shared/base/printable.h.
std::string image_name(const IndexEntry& entry);

// Returns "record 7 (street/17.jpg)", of the entry's shard, with a tile's place behind the name;
// "record 7" if the name is not known.
std::string record_name(const IndexEntry& entry);

// File names by image id; images without one are missing.
using FileNames = std::unordered_map<std::int64_t, std::string>;
FileNames file_names_of(const ImageIndex& index);

// Returns the labels for a record's entry.
std::vector<int> entry_labels(const Record& record);

std::string encode_index(const ImageIndex& index);

// Returns true if the file is one of our indexes, even a damaged one.
bool is_index(const std::string& path);

// Decodes an index. Throws kData: damaged (own hash), written by another version, or not the file
// whose bytes have the hash `want_xxh3`: that of another set. Errors begin with `name`.
ImageIndex decode_index(std::string_view bytes, const std::string& name,
                        std::optional<std::uint64_t> want_xxh3 = {});

}  // namespace retina
