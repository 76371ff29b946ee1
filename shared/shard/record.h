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

// A box as the COCO file has it, with the class as dense label.
struct RecordAnnotation {
  std::int64_t id = 0;
  std::array<double, 4> bbox{};  // x, y, width, height; pixels of the stored image
  double area = 0;               // pixels^2; of the object's outline where COCO has one
  int label = 0;                 // place of its category in manifest.categories
  bool iscrowd = false;
  // Of a tile's: too little of the object is inside the tile. It is neither an object to find there
  // nor background.
  bool is_partial = false;
};

// How a record's image is stored. Raw: [height, width, 3] u8 RGB, rows top to bottom.
enum class ImageEncoding { kJpeg, kRaw };
inline const Choices<ImageEncoding> kImageEncodings = {{"jpeg", ImageEncoding::kJpeg},
                                                       {"raw", ImageEncoding::kRaw}};

// A decoded record. `image` points into the bytes it was decoded from.
struct Record {
  std::int64_t image_id = 0;
  std::string file_name{};  // as the annotations have it
  int width = 0;            // of the stored image, pixels
  int height = 0;
  bool rescaled = false;   // coco-pack --max-side made image and boxes smaller than the source
  bool converted = false;  // made by coco-pack of another format, or of an image turned upright
  ImageEncoding encoding = ImageEncoding::kJpeg;
  std::vector<RecordAnnotation> annotations{};
  // The class of the whole image, a place in manifest.categories: in every record of a
  // classification set, which has no annotations, and in no other.
  std::optional<int> label{};
  // Of a tile: its place. `annotations` are then those in the tile, clipped, in its pixels.
  std::optional<TilePlace> tile{};
  // Of an image's first tile, and of no other record: all annotations of the whole image, in its
  // pixels, which detections are scored against.
  std::optional<std::vector<RecordAnnotation>> whole_annotations{};
  std::string_view image{};
  // What `image` points into, where that may go before its data set does.
  std::shared_ptr<const void> keeps{};
};

// The part of the box inside a width x height image as training sees it before it mirrors and
// scales: x1, y1, x2, y2 in f32, by torchvision's order of operations (corners, then clip). Nothing
// for crowds, for what a tile shows too little of, and for boxes without an area there. A side
// counts as none below 2^-20 of the image's: mirroring moves a corner by half an ulp of the image's
// side (2^-24 of it) and scaling by half an ulp of its own, so what is left keeps a side > 0 at
// every size, flipped or not. Without that a box of no width has IoU 0 with all anchors, and the
// low-quality match makes all of them foreground.
std::optional<std::array<float, 4>> training_box(const RecordAnnotation& annotation, int width,
                                                 int height);

// True when there is a training_box(). The index counts these.
bool is_trainable(const RecordAnnotation& annotation, int width, int height);

// The bytes of a record; `image` may point anywhere.
std::string encode_record(const Record& record);

// Size in bytes of the record that `encode_record` would make.
std::size_t record_size_bytes(const Record& record);

// Reads a record and checks all of it: lengths, header hash, payload hash, ranges. The result's
// `image` points into `bytes`. Errors begin with `place` ("shard-00000-of-00002.lmdb: record 7").
// Throws kData: damaged, or written by a newer version.
Record decode_record(std::string_view bytes, const std::string& place);

}  // namespace retina
