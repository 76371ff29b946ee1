// One record of a shard: an image's annotations (boxes, or its class) and its image. The byte
// layout is in FORMAT.md; this file and record.cpp are the only code that knows it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/choices.h"
#include "shared/shard/tile.h"

namespace retina {

// The newest version of a record. Part of the format; never renumber.
inline constexpr std::uint16_t kRecordVersion = 2;
inline constexpr std::size_t kRecordHeaderBytes = 48;

// A box of the COCO file, with the class as dense label.
struct RecordAnnotation {
  std::int64_t id = 0;
  std::array<double, 4> bbox{};  // x, y, width, height; pixels of the stored image
  double area = 0;               // pixels^2; of the object's outline if COCO has one
  int label = 0;                 // place of its category in manifest.categories
  bool iscrowd = false;
  // True for a tile's box with too little of the object inside the tile, which is neither an object
  // to find there nor background.
  bool is_partial = false;
};

// Storage of a record's image. Raw: [height, width, 3] u8 RGB, rows top to bottom.
enum class ImageEncoding { kJpeg, kRaw };
inline const Choices<ImageEncoding> kImageEncodings = {{"jpeg", ImageEncoding::kJpeg},
                                                       {"raw", ImageEncoding::kRaw}};

// A decoded record. `image` points into the bytes it was decoded from.
struct Record {
  std::int64_t image_id = 0;
  std::string file_name{};  // from the annotations
  int width = 0;            // the stored image's, px
  int height = 0;
  bool rescaled = false;   // coco-pack --max-side made image and boxes smaller than the source
  bool converted = false;  // encoded by coco-pack, from another format or turned upright
  ImageEncoding encoding = ImageEncoding::kJpeg;
  std::vector<RecordAnnotation> annotations{};
  // The class of the whole image, a place in manifest.categories: in every record of a
  // classification set, which has no annotations, and in no other.
  std::optional<int> label{};
  // Place of a tile. `annotations` are then those in the tile, clipped, in its pixels.
  std::optional<TilePlace> tile{};
  // In an image's first tile, and in no other record: all annotations of the whole image, in its
  // pixels, against which detections are scored.
  std::optional<std::vector<RecordAnnotation>> whole_annotations{};
  std::string_view image{};
  // Owner of the bytes of `image`, if they may go before their data set does.
  std::shared_ptr<const void> keeps{};
};

// Returns the part of the box inside a width x height image as training sees it before it mirrors
// and scales: x1, y1, x2, y2 in f32, by torchvision's order of operations (corners, then clip).
// Nothing for crowds, for boxes with too little in their tile, and for boxes without an area there.
// A side below 2^-20 of the image's does not count: mirroring moves a corner by half an ulp of the
// image's side (2^-24 of it) and scaling by half an ulp of its own, so the remaining boxes keep a
// side > 0 at every size, flipped or not. Without that a box of no width has IoU 0 with all
// anchors, and the low-quality match makes all of them foreground.
std::optional<std::array<float, 4>> training_box(const RecordAnnotation& annotation, int width,
                                                 int height);

// Returns true if there is a training_box(). The index counts these.
bool is_trainable(const RecordAnnotation& annotation, int width, int height);

// Returns the bytes of a record; `image` may point anywhere.
std::string encode_record(const Record& record);

// Returns the size in bytes of the record that `encode_record` would make.
std::size_t record_size_bytes(const Record& record);

// Reads a record and checks all of it: lengths, header hash, payload hash, ranges. The result's
// `image` points into `bytes`. Errors begin with `place` ("shard-00000-of-00002.lmdb: record 7").
// Throws kData: damaged, or written by a newer version.
Record decode_record(std::string_view bytes, const std::string& place);

}  // namespace retina
