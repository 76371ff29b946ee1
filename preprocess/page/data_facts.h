// The facts on the page of a data set, collected record by record while packing, so that no shard
// is read a second time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/anchor/anchor_fit.h"
#include "shared/shard/manifest.h"
#include "shared/shard/record.h"

namespace retina {

inline constexpr std::size_t kSampleCount = 24;

struct ImageFacts {
  std::int64_t image_id = 0;
  std::uint64_t image_xxh3 = 0;
  std::uint64_t truth_xxh3 = 0;  // hash of its boxes, or of its class
  int width = 0, height = 0;
  std::uint32_t box_count = 0;  // to train on
  bool is_empty_tile = false;   // many look the same: water, sky, what lies around the image
};

// A box to train on.
struct BoxFacts {
  float side_px = 0;  // square root of COCO's area
  std::int32_t label = 0;
};

// An image to show, with its boxes or its class.
struct SampleImage {
  std::int64_t image_id = 0;
  int width = 0, height = 0;
  std::optional<TilePlace> tile{};
  ImageEncoding encoding = ImageEncoding::kJpeg;
  std::string image{};
  std::vector<RecordAnnotation> annotations{};
  std::optional<int> label{};
};

class DataFacts {
 public:
  explicit DataFacts(std::size_t class_count) : images_of_class_(class_count) {}

  // The records in the set's order, the tiles of an image one behind the other, its first one
  // first; `record.image` is the stored one, with its hash.
  void add(const Record& record, std::uint64_t image_xxh3);

  const std::vector<ImageFacts>& images() const { return images_; }
  // Parallel arrays: a box's facts, and its size at the trainer's default image size.
  const std::vector<BoxFacts>& boxes() const { return boxes_; }
  const std::vector<BoxSize>& box_sizes() const { return box_sizes_; }
  // By label: the images with a box of the class to train on, or labelled with it.
  const std::vector<std::int64_t>& images_of_class() const { return images_of_class_; }
  // Objects of tiled images that are partial in each of their tiles: by label, and the largest.
  struct LostObjects {
    std::map<int, std::int64_t> of_label{};
    std::array<double, 4> largest{};  // x, y, width, height
  };
  LostObjects lost_objects() const;
  // Up to kSampleCount images or tiles, chosen by a hash of their ids and places: a fair choice,
  // the same each time.
  std::vector<const SampleImage*> samples() const;
  // Places in images() of those with the same bytes: groups of two or more, in the set's order.
  // Without empty tiles.
  std::vector<std::vector<std::size_t>> identical_images() const;

 private:
  void follow_objects(const Record& record);
  void offer_sample(const Record& record);

  std::vector<ImageFacts> images_{};
  std::vector<BoxFacts> boxes_{};
  std::vector<BoxSize> box_sizes_{};
  std::vector<std::int64_t> images_of_class_;
  std::map<std::pair<std::uint64_t, std::int64_t>, SampleImage> samples_{};  // by hash and id
  LostObjects lost_{};  // those of the images before the last one
  // By id, of the last tiled image's: those that are partial in all its tiles up to now.
  std::map<std::int64_t, RecordAnnotation> partial_so_far_{};
};

// Returns the size of images at which anchors are compared with their boxes, retina-train's without
// --min-side and --max-side: "images at 800/1333 px", "tiles of 400 px enlarged to 800 px".
std::string size_of_boxes_text(const Manifest& manifest);

// "3 boxes are partial in every tile, so nothing learns them (stadium 3; the largest 750x650 px): a
// larger --tile or more overlap shows more of them"; empty where there are none.
std::string lost_in_tiles(const DataFacts& facts, const Categories& categories);

// A share of the boxes that is worth a word.
inline constexpr double kReportedShare = 0.02;

// "images are 5.0 times as large as the network sees them (800 px): pack them with --tile 800",
// where that helps: whole images that are shrunk so much that many of their boxes are lost
// (`uncovered`, by the default anchors) or most become small in COCO's sense. Empty elsewhere, also
// for large photographs of large objects, which tiles would only cut.
std::string tile_advice(const DataFacts& facts, const Manifest& manifest,
                        const Uncovered& uncovered);

}  // namespace retina
