#include "shared/image/orientation.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "shared/image/image_file.h"

namespace retina {
namespace {

constexpr int kUpright = 1;
constexpr std::uint16_t kOrientationTag = 0x0112, kShortType = 3;
constexpr std::size_t kEntryBytes = 12;
constexpr std::size_t kMostExifBytes = 1 << 16;  // of a chunk; the first directory is within them
constexpr std::string_view kExifMark("Exif\0\0", 6);  // some writers put it into WebP and PNG, too

std::uint32_t number_of(std::string_view bytes, bool is_big_endian) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    value =
        value << 8 | static_cast<unsigned char>(bytes[is_big_endian ? i : bytes.size() - 1 - i]);
  }
  return value;
}

int orientation_of_tiff(std::string_view bytes) {
  const bool is_big_endian = bytes.starts_with("MM");
  // Returns 0 outside the bytes.
  const auto number = [&](std::size_t at, std::size_t size) -> std::uint32_t {
    if (at > bytes.size() || bytes.size() - at < size) return 0;
    return number_of(bytes.substr(at, size), is_big_endian);
  };
  if ((!is_big_endian && !bytes.starts_with("II")) || number(2, 2) != 42) return kUpright;
  const std::size_t directory = number(4, 4);
  const std::uint32_t entries = number(directory, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t at = directory + 2 + i * kEntryBytes;
    if (number(at, 2) != kOrientationTag) continue;
    const std::uint32_t value = number(at + 8, 2);
    const bool makes_sense = number(at + 2, 2) == kShortType && value >= 1 && value <= 8;
    return makes_sense ? static_cast<int>(value) : kUpright;
  }
  return kUpright;
}

// Returns `count` bytes, fewer at the file's end.
std::string piece(ImageBytes& file, std::uint64_t at, std::size_t count) {
  std::string bytes(count, '\0');
  bytes.resize(file.read_at(at, bytes.data(), count));
  return bytes;
}

// Returns the first EXIF data of a JPEG's segments or of the chunks of a PNG or WebP; empty if
// there are none.
std::string exif_of(ImageBytes& file, const std::string& format) {
  constexpr int kMostPieces = 1 << 20;  // a PNG has one for each 8 KiB
  const bool is_jpeg = format == "JPEG", is_png = format == "PNG";
  std::uint64_t at = is_jpeg ? 2 : is_png ? 8 : 12;
  for (int i = 0; i < kMostPieces; ++i) {
    const std::string head = piece(file, at, is_jpeg ? 4 : 8);
    if (head.size() < (is_jpeg ? 4 : 8)) return "";
    if (is_jpeg) {
      const std::uint32_t length = number_of(head.substr(2), true);
      const bool is_fill = head.starts_with("\xFF\xFF");
      if (head[0] != '\xFF' || head[1] == '\xDA' || (length < 2 && !is_fill)) return "";
      std::string content = head[1] == '\xE1' ? piece(file, at + 4, length - 2) : "";
      if (content.starts_with(kExifMark)) return content;
      at += is_fill ? 1 : 2 + length;
    } else {
      const std::uint64_t length = number_of(head.substr(is_png ? 0 : 4, 4), is_png);
      if (head.substr(is_png ? 4 : 0, 4) == (is_png ? "eXIf" : "EXIF")) {
        return piece(file, at + 8, std::min<std::uint64_t>(length, kMostExifBytes));
      }
      at += 8 + length + (is_png ? 4 : length % 2);
    }
  }
  return "";
}

}  // namespace

int exif_orientation(ImageBytes file) {
  const std::string format = image_format(piece(file, 0, 16));
  if (format == "TIFF") return read_tiff_orientation(file);
  if (!is_image_format(format)) return kUpright;
  std::string exif = exif_of(file, format);
  file.rethrow();
  if (exif.starts_with(kExifMark)) exif.erase(0, kExifMark.size());
  return orientation_of_tiff(exif);
}

Image upright(const Image& stored, int orientation) {
  const bool sideways = is_turned_sideways(orientation);
  Image turned = sideways ? Image(stored.height, stored.width) : Image(stored.width, stored.height);
  // (from_x, from_y) is the place in the stored image of (x, y) in the upright one.
  const bool from_right =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  for (int y = 0; y < turned.height; ++y) {
    for (int x = 0; x < turned.width; ++x) {
      const int column = sideways ? y : x, row = sideways ? x : y;
      const int from_x = from_right ? stored.width - 1 - column : column;
      const int from_y = from_bottom ? stored.height - 1 - row : row;
      std::copy_n(stored.pixel(from_x, from_y), 3, turned.pixel(x, y));
    }
  }
  return turned;
}

}  // namespace retina
