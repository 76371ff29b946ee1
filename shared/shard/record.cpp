#include "shared/shard/record.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "shared/base/hash.h"
#include "shared/shard/damaged.h"
#include "shared/shard/little_endian.h"

namespace retina {
namespace {

// Part of the format; never renumber. Offsets in the header:
constexpr std::string_view kRecordMagic = "RREC";
constexpr std::size_t kVersionAt = 4, kFlagsAt = 6, kImageIdAt = 8, kWidthAt = 16, kHeightAt = 20,
                      kAnnotationBytesAt = 24, kImageBytesAt = 28, kPayloadHashAt = 32,
                      kHeaderHashAt = 40;
constexpr std::uint16_t kRescaledFlag = 1, kConvertedFlag = 2, kRawFlag = 4;
// Records with a JPEG keep the first version, which every reader supports.
constexpr std::uint16_t kJpegVersion = 1, kRawVersion = 2;

// Blocks of the annotation part: u32 type, u32 content bytes, content.
constexpr std::size_t kBlockHeaderBytes = 8;
constexpr std::uint32_t kBoxesBlock = 1, kLabelBlock = 2, kFileNameBlock = 3, kTileBlock = 4,
                        kWholeBoxesBlock = 5;
constexpr std::size_t kBoxBytes = 56, kLabelBytes = 4, kTileBytes = 16;
constexpr std::uint32_t kCrowdFlag = 1, kPartialFlag = 2;

constexpr std::uint32_t kMaxSide = std::numeric_limits<std::int32_t>::max();

// A side below this part of the image's is too small for training.
constexpr float kLeastPartOfSide = 0x1p-20F;

void check_length(const std::string& place, const char* part, std::uint64_t got,
                  std::uint64_t want) {
  if (got == want) return;
  fail_damaged(place, cat(part, "has a wrong length (got ", got, " bytes, want ", want, ")"));
}

std::vector<RecordAnnotation> decode_boxes(std::string_view content, const std::string& place) {
  std::vector<RecordAnnotation> annotations(content.size() / kBoxBytes);
  check_length(place, "box block ", content.size(), annotations.size() * kBoxBytes);
  for (std::size_t i = 0; i < annotations.size(); ++i) {
    const std::size_t at = i * kBoxBytes;
    RecordAnnotation& annotation = annotations[i];
    annotation.id = get<std::int64_t>(content, at);
    for (std::size_t k = 0; k < 4; ++k) annotation.bbox[k] = get_f64(content, at + 8 + 8 * k);
    annotation.area = get_f64(content, at + 40);
    annotation.label = get<std::int32_t>(content, at + 48);
    const auto flags = get<std::uint32_t>(content, at + 52);
    annotation.iscrowd = (flags & kCrowdFlag) != 0;
    annotation.is_partial = (flags & kPartialFlag) != 0;
    if (annotation.label < 0) {
      fail_damaged(place,
                   cat("box ", i, " has a negative class label (got ", annotation.label, ")"));
    }
  }
  return annotations;
}

int decode_label(std::string_view content, const std::string& place) {
  check_length(place, "label block ", content.size(), kLabelBytes);
  const auto label = get<std::uint32_t>(content, 0);
  if (label > std::uint32_t{std::numeric_limits<std::int32_t>::max()}) {
    fail_damaged(place, cat("class label is out of range (got ", label, ")"));
  }
  return static_cast<int>(label);
}

// Decodes a tile's place; throws unless the tile lies inside its image.
TilePlace decode_tile(std::string_view content, const Record& record, const std::string& place) {
  check_length(place, "tile block ", content.size(), kTileBytes);
  const std::uint64_t x = get<std::uint32_t>(content, 0), y = get<std::uint32_t>(content, 4),
                      width = get<std::uint32_t>(content, 8),
                      height = get<std::uint32_t>(content, 12);
  if (width > kMaxSide || height > kMaxSide ||
      x + static_cast<std::uint64_t>(record.width) > width ||
      y + static_cast<std::uint64_t>(record.height) > height) {
    fail_damaged(place, cat("tile lies outside its image (got ", record.width, " x ", record.height,
                            " at ", x, ", ", y, " of ", width, " x ", height, ")"));
  }
  return {.x = static_cast<int>(x),
          .y = static_cast<int>(y),
          .image_width = static_cast<int>(width),
          .image_height = static_cast<int>(height)};
}

// Decodes the blocks. Blocks of other types are skipped: a later writer may add some without a new
// version.
void decode_annotations(std::string_view part, const std::string& place, Record& record) {
  bool has_boxes = false;
  while (!part.empty()) {
    if (part.size() < kBlockHeaderBytes) fail_damaged(place, "annotation block is cut short");
    const auto type = get<std::uint32_t>(part, 0);
    const std::size_t content_bytes = get<std::uint32_t>(part, 4);
    part.remove_prefix(kBlockHeaderBytes);
    if (content_bytes > part.size()) {
      fail_damaged(place, cat("annotation block is cut short (got ", part.size(), " bytes, want ",
                              content_bytes, ")"));
    }
    const std::string_view content = part.substr(0, content_bytes);
    if (type == kBoxesBlock) {
      record.annotations = decode_boxes(content, place);
      has_boxes = true;
    } else if (type == kLabelBlock) {
      if (record.label) fail_damaged(place, "has more than one label block");
      record.label = decode_label(content, place);
    } else if (type == kFileNameBlock) {
      if (!record.file_name.empty()) fail_damaged(place, "has more than one file name");
      record.file_name = content;
    } else if (type == kTileBlock) {
      record.tile = decode_tile(content, record, place);
    } else if (type == kWholeBoxesBlock) {
      record.whole_annotations = decode_boxes(content, place);
    }
    part.remove_prefix(content_bytes);
  }
  // Combinations that no writer produces.
  if (record.label && has_boxes) {
    fail_damaged(place, "has both boxes and a class of the whole image");
  }
  if (record.whole_annotations && !record.tile) {
    fail_damaged(place, "has boxes of a whole image and is not a tile");
  }
}

// Returns the size of the block of boxes or of the class, without its header.
std::size_t content_size_bytes(const Record& record) {
  return record.label ? kLabelBytes : record.annotations.size() * kBoxBytes;
}

// Returns the size of the whole annotation part.
std::size_t annotation_part_bytes(const Record& record) {
  const std::size_t name_bytes =
      record.file_name.empty() ? 0 : kBlockHeaderBytes + record.file_name.size();
  const std::size_t tile_bytes = record.tile ? kBlockHeaderBytes + kTileBytes : 0;
  const std::size_t whole_bytes =
      record.whole_annotations ? kBlockHeaderBytes + record.whole_annotations->size() * kBoxBytes
                               : 0;
  return kBlockHeaderBytes + content_size_bytes(record) + name_bytes + tile_bytes + whole_bytes;
}

void put_block(std::string& bytes, std::uint32_t type, std::size_t content_bytes) {
  put(bytes, type);
  put(bytes, static_cast<std::uint32_t>(content_bytes));
}

void put_boxes(std::string& bytes, const std::vector<RecordAnnotation>& annotations) {
  for (const RecordAnnotation& annotation : annotations) {
    put(bytes, annotation.id);
    for (const double number : annotation.bbox) put(bytes, number);
    put(bytes, annotation.area);
    put(bytes, static_cast<std::int32_t>(annotation.label));
    put(bytes,
        (annotation.iscrowd ? kCrowdFlag : 0U) | (annotation.is_partial ? kPartialFlag : 0U));
  }
}

// Checks lengths before hashes: a hash covers as many bytes as the lengths say.
void check_header(std::string_view bytes, const std::string& place) {
  if (bytes.size() < kRecordHeaderBytes || bytes.substr(0, kRecordMagic.size()) != kRecordMagic) {
    fail_damaged(place, "is not a retina-batch record");
  }
  const auto version = get<std::uint16_t>(bytes, kVersionAt);
  const bool intact =
      get<std::uint64_t>(bytes, kHeaderHashAt) == xxh3(bytes.substr(0, kHeaderHashAt));
  if (intact && version > kRecordVersion) fail_version(place, "record", version, kRecordVersion);
  if (!intact || version == 0)
    fail_damaged(place, "header is damaged (its checksum does not match)");
}

}  // namespace

std::optional<std::array<float, 4>> training_box(const RecordAnnotation& annotation, int width,
                                                 int height) {
  const bool has_sides = annotation.bbox[2] > 0 && annotation.bbox[3] > 0;
  if (annotation.iscrowd || annotation.is_partial || !has_sides) return std::nullopt;
  const std::array<float, 2> start = {static_cast<float>(annotation.bbox[0]),
                                      static_cast<float>(annotation.bbox[1])};
  const std::array<float, 2> limit = {static_cast<float>(width), static_cast<float>(height)};
  std::array<float, 4> box{};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const float end = start[axis] + static_cast<float>(annotation.bbox[axis + 2]);
    box[axis] = std::clamp(start[axis], 0.0F, limit[axis]);
    box[axis + 2] = std::clamp(end, 0.0F, limit[axis]);
    // A NaN (the corner of a box at infinity) is not trainable either.
    if (!(box[axis + 2] - box[axis] >= limit[axis] * kLeastPartOfSide)) return std::nullopt;
  }
  return box;
}

bool is_trainable(const RecordAnnotation& annotation, int width, int height) {
  return training_box(annotation, width, height).has_value();
}

std::size_t record_size_bytes(const Record& record) {
  return kRecordHeaderBytes + annotation_part_bytes(record) + record.image.size();
}

std::string encode_record(const Record& record) {
  RETINA_CHECK(!record.whole_annotations || record.tile, "image ", record.image_id);
  RETINA_CHECK(!record.label || (record.annotations.empty() && *record.label >= 0), "image ",
               record.image_id);
  const std::size_t annotation_bytes = annotation_part_bytes(record);
  constexpr std::size_t kLimit = std::numeric_limits<std::uint32_t>::max();
  RETINA_CHECK(annotation_bytes <= kLimit && record.image.size() <= kLimit, "record of image ",
               record.image_id, " is too large");
  // The payload after an empty header: boxes or label, file name, tile, image.
  std::string bytes(kRecordHeaderBytes, '\0');
  bytes.reserve(record_size_bytes(record));
  put_block(bytes, record.label ? kLabelBlock : kBoxesBlock, content_size_bytes(record));
  if (record.label) put(bytes, static_cast<std::uint32_t>(*record.label));
  put_boxes(bytes, record.annotations);
  if (!record.file_name.empty()) {
    put_block(bytes, kFileNameBlock, record.file_name.size());
    bytes.append(record.file_name);
  }
  if (record.tile) {
    put_block(bytes, kTileBlock, kTileBytes);
    for (const int number :
         {record.tile->x, record.tile->y, record.tile->image_width, record.tile->image_height}) {
      put(bytes, static_cast<std::uint32_t>(number));
    }
  }
  if (record.whole_annotations) {
    put_block(bytes, kWholeBoxesBlock, record.whole_annotations->size() * kBoxBytes);
    put_boxes(bytes, *record.whole_annotations);
  }
  bytes.append(record.image);

  // The header's hashes come last, over its final content.
  std::string header(kRecordMagic);
  const bool raw = record.encoding == ImageEncoding::kRaw;
  put(header, raw ? kRawVersion : kJpegVersion);
  put(header,
      static_cast<std::uint16_t>((record.rescaled ? kRescaledFlag : 0) |
                                 (record.converted ? kConvertedFlag : 0) | (raw ? kRawFlag : 0)));
  put(header, record.image_id);
  put(header, static_cast<std::uint32_t>(record.width));
  put(header, static_cast<std::uint32_t>(record.height));
  put(header, static_cast<std::uint32_t>(annotation_bytes));
  put(header, static_cast<std::uint32_t>(record.image.size()));
  put(header, xxh3(std::string_view(bytes).substr(kRecordHeaderBytes)));
  put(header, xxh3(header));  // of the 40 bytes so far
  bytes.replace(0, kRecordHeaderBytes, header);
  return bytes;
}

Record decode_record(std::string_view bytes, const std::string& place) {
  check_header(bytes, place);
  const std::size_t annotation_bytes = get<std::uint32_t>(bytes, kAnnotationBytesAt);
  const std::size_t image_bytes = get<std::uint32_t>(bytes, kImageBytesAt);
  const std::string_view payload = bytes.substr(kRecordHeaderBytes);
  check_length(place, "", payload.size(), annotation_bytes + image_bytes);
  if (get<std::uint64_t>(bytes, kPayloadHashAt) != xxh3(payload)) {
    fail_damaged(place, "content is damaged (its checksum does not match)");
  }
  // The checksum proves only that nothing changed; a forged record may still hold any numbers.
  const auto width = get<std::uint32_t>(bytes, kWidthAt);
  const auto height = get<std::uint32_t>(bytes, kHeightAt);
  if (width == 0 || height == 0 || width > kMaxSide || height > kMaxSide) {
    fail_damaged(place, cat("has an impossible image size (got ", width, " x ", height, ")"));
  }
  Record record;
  record.image_id = get<std::int64_t>(bytes, kImageIdAt);
  record.width = static_cast<int>(width);
  record.height = static_cast<int>(height);
  const auto flags = get<std::uint16_t>(bytes, kFlagsAt);
  record.rescaled = (flags & kRescaledFlag) != 0;
  record.converted = (flags & kConvertedFlag) != 0;
  if ((flags & kRawFlag) != 0) record.encoding = ImageEncoding::kRaw;
  decode_annotations(payload.substr(0, annotation_bytes), place, record);
  record.image = payload.substr(annotation_bytes);
  if (record.encoding == ImageEncoding::kRaw) {
    check_length(place, "raw image ", image_bytes, std::uint64_t{width} * height * 3);
  }
  return record;
}

}  // namespace retina
