// Counting what a set holds; packing, continuing and verifying count with the same code.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "shared/shard/image_index.h"
#include "shared/shard/manifest.h"
#include "shared/shard/record.h"

namespace retina {

// A data set may have a million degenerate boxes: the first ones say where to look.
inline constexpr std::size_t kNamedBoxes = 5;

struct Tally {
  explicit Tally(std::size_t class_count) : label_counts(class_count) {}

  ManifestCounts counts{};
  std::vector<std::int64_t> label_counts;  // as Manifest's
  BoxHistogram box_sizes{};                // likewise
  // The degenerate annotations, each once however many tiles have it, and the first of them:
  // "12 of a.jpg (image 4)", kNamedBoxes at most.
  std::int64_t degenerate_annotations = 0;
  std::vector<std::string> first_degenerate{};

  // The tiles of an image come one behind the other, the first one first.
  void add(const Record& record);

 private:
  std::set<std::int64_t> degenerate_of_image_{};
};

// Returns true if the box ends at an edge of its tile that is not the image's.
bool is_cut(const RecordAnnotation& annotation, const Record& record);

// The index entry of a record at (shard, place).
struct RecordPlace {
  std::uint32_t shard = 0, place = 0;
};
// Borrows from the record, and its entry_labels().
IndexEntry index_entry(const Record& record, std::uint64_t image_xxh3, const RecordPlace& at,
                       std::span<const int> labels);

}  // namespace retina
