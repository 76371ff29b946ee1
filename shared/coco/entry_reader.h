// The core of instances.cpp and results.cpp: walks the lists of a COCO file of any size and hands
// over flat entries. The text is read in pieces of whole entries, several at once, by
// json_scanner.h, and by RapidJSON if that refuses one (escapes in names, NaN, deep nesting).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/json.h"

namespace retina {

// The keys that are read. All others are skipped, whatever their value, which must still be JSON.
enum class CocoField : std::uint8_t {
  kId,
  kImageId,
  kCategoryId,
  kBbox,
  kScore,
  kArea,
  kIscrowd,
  kWidth,
  kHeight,
  kFileName,
  kName,
  kSupercategory,
};

// One object of a list. A field is meaningful if `has` it. Texts are UTF-8, and valid until the
// next ones are handed over; numbers are finite and rounded correctly.
struct CocoEntry {
  std::int64_t id = 0, image_id = 0, category_id = 0;
  std::int64_t width = 0, height = 0;
  std::string_view file_name{}, name{}, supercategory{};
  std::array<double, 4> bbox{};
  double area = 0, score = 0;
  bool iscrowd = false;
  bool is_rotated = false;  // "attributes" has a "rotation" that is not 0
  unsigned given = 0;       // one bit per field

  bool has(CocoField field) const { return (given >> static_cast<unsigned>(field) & 1) != 0; }
};

// One list of entries inside the file.
struct CocoList {
  std::string key{};                 // "annotations"; "" if the file itself is the array
  std::vector<CocoField> needed{};   // an error if one is missing
  std::vector<CocoField> allowed{};  // read if present (null counts as absent)
};

// Sizes for cutting the text; they do not change the entries.
struct ReadingPieces {
  int thread_count = 0;                            // 0: usable_cores(), at most 8
  std::size_t piece_bytes = std::size_t{1} << 16;  // bytes that a thread takes at once
};

// Receives consecutive entries of lists[list] from number `first` on, in the file's order.
using TakeEntries =
    std::function<void(std::size_t list, std::size_t first, std::span<const CocoEntry> entries)>;

// Reads the file at `path`. Holds only the pieces in memory, or one entry if that is longer. Throws
// kNoInput / kIo (reading) and kData: not JSON (line and column), a list that is missing or comes
// twice, and, naming the entry, a missing key or one that comes twice, a wrong type, a text that is
// not UTF-8, a number that is not finite. An exception of `take` ends the reading, too.
void read_entries(const std::string& path, const std::vector<CocoList>& lists,
                  const TakeEntries& take, const ReadingPieces& pieces = {});

// Receives a value of a list and its number.
using TakeValue = std::function<void(std::size_t index, const rapidjson::Value& value)>;

// Reads the values of the list `key` at the file's root, one by one; the other members must be
// JSON. Throws as read_entries().
void read_values(const std::string& path, const std::string& key, const TakeValue& take);

// Returns "FILE: annotations[17] (id 42)", for messages.
std::string entry_place(const std::string& path, const CocoList& list, std::size_t index,
                        const CocoEntry& entry);

}  // namespace retina
