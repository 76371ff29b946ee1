// The streaming core of instances.cpp and results.cpp: walks COCO JSON with RapidJSON's event
// parser and hands over one flat entry at a time. Only the current entry is kept.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace retina {

struct JsonSyntaxError;

// The keys that anything here reads; all others are skipped, whatever their value.
enum class CocoField : std::uint8_t {
  kId,
  kImageId,
  kCategoryId,
  kFileName,
  kWidth,
  kHeight,
  kBbox,
  kArea,
  kIscrowd,
  kName,
  kSupercategory,
  kScore,
  kOther,
};
inline constexpr std::size_t kCocoFieldCount = static_cast<std::size_t>(CocoField::kOther);

const char* field_name(CocoField field);

// One object of a list. A field is meaningful when `has` it. Texts are UTF-8.
struct CocoEntry {
  std::array<bool, kCocoFieldCount> given{};
  std::int64_t id = 0, image_id = 0, category_id = 0;
  std::int64_t width = 0, height = 0;
  std::string file_name{}, name{}, supercategory{};
  std::array<double, 4> bbox{};
  double area = 0, score = 0;
  bool iscrowd = false;

  bool has(CocoField field) const { return given[static_cast<std::size_t>(field)]; }
};

// One list of entries inside the file.
struct CocoList {
  std::string key{};                 // "annotations"; "" when the file itself is the array
  std::vector<CocoField> needed{};   // missing: an error
  std::vector<CocoField> allowed{};  // read when present (null counts as absent)
};

class EntryReader {
 public:
  virtual ~EntryReader() = default;

  // Parses `text`; calls `entry` for each. Throws Error{kData} whose message begins with `name`.
  void read(std::string_view text, const std::string& name, const std::vector<CocoList>& lists);
  // The same of a file, of which no more than `piece_bytes`, at least 3, is held at a time.
  void stream(const std::string& path, std::size_t piece_bytes, const std::vector<CocoList>& lists);

 protected:
  // Entry number `index` of lists[list]; all needed fields are there, numbers are finite.
  virtual void entry(std::size_t list, std::size_t index, CocoEntry& entry) = 0;

  // "FILE: annotations[17] (id 42)".
  static std::string place(const std::string& name, const CocoList& list, std::size_t index,
                           const CocoEntry& entry);

 private:
  friend class EntryEvents;
  template <class Stream>
  std::optional<JsonSyntaxError> parse(Stream& stream, const std::string& name,
                                       const std::vector<CocoList>& lists);
};

}  // namespace retina
