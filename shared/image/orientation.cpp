#include "shared/image/orientation.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "shared/image/image_file.h"

namespace retina {
namespace {

constexpr int kUpright = 1;
constexpr std::uint16_t kOrientationTag = 0x0112, kShortType = 3;
constexpr std::size_t kEntryBytes = 12;

// Numbers of either byte order; nothing outside the text.
class TiffReader {
 public:
  explicit TiffReader(std::string_view bytes) : bytes_(bytes) {
    big_endian_ = bytes_.substr(0, 2) == "MM";
  }

  bool is_tiff() const {
    return (big_endian_ || bytes_.substr(0, 2) == "II") && number(2, 2) == 42U;
  }

  std::optional<std::uint32_t> number(std::size_t at, std::size_t size) const {
    if (at > bytes_.size() || bytes_.size() - at < size) return std::nullopt;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      value =
          value << 8 | static_cast<unsigned char>(bytes_[at + (big_endian_ ? i : size - 1 - i)]);
    }
    return value;
  }

 private:
  std::string_view bytes_;
  bool big_endian_ = false;
};

int orientation_of_tiff(std::string_view bytes) {
  const TiffReader tiff(bytes);
  const auto directory = tiff.number(4, 4);
  if (!tiff.is_tiff() || !directory) return kUpright;
  const std::uint32_t entries = tiff.number(*directory, 2).value_or(0);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t at = *directory + 2 + i * kEntryBytes;
    if (tiff.number(at, 2) != kOrientationTag) continue;
    const std::uint32_t value = tiff.number(at + 8, 2).value_or(kUpright);
    const bool makes_sense = tiff.number(at + 2, 2) == kShortType && value >= 1 && value <= 8;
    return makes_sense ? static_cast<int>(value) : kUpright;
  }
  return kUpright;
}

int orientation_of_jpeg(std::string_view jpeg) {
  constexpr std::string_view kExif("Exif\0\0", 6);
  constexpr unsigned char kApp1 = 0xE1, kStartOfScan = 0xDA, kFill = 0xFF;
  std::size_t at = 2;  // past the start of the image
  while (at + 4 <= jpeg.size() && static_cast<unsigned char>(jpeg[at]) == 0xFF) {
    const auto marker = static_cast<unsigned char>(jpeg[at + 1]);
    if (marker == kFill) {
      ++at;
      continue;
    }
    if (marker == kStartOfScan) break;
    const std::size_t length = static_cast<std::size_t>(static_cast<unsigned char>(jpeg[at + 2]))
                                   << 8 |
                               static_cast<unsigned char>(jpeg[at + 3]);
    if (length < 2) break;
    const std::string_view content = jpeg.substr(at + 4, length - 2);
    if (marker == kApp1 && content.substr(0, kExif.size()) == kExif) {
      return orientation_of_tiff(content.substr(kExif.size()));
    }
    at += 2 + length;
  }
  return kUpright;
}

}  // namespace

int exif_orientation(std::string_view file) {
  const std::string format = image_format(file);
  if (format == "JPEG") return orientation_of_jpeg(file);
  return format == "TIFF" ? read_tiff_orientation(file) : kUpright;
}

Image upright(const Image& stored, int orientation) {
  const bool sideways = is_turned_sideways(orientation);
  Image turned = sideways ? Image(stored.height, stored.width) : Image(stored.width, stored.height);
  // Where the upright image's (x, y) lies in the stored one.
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
