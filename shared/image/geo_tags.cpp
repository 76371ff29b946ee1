#include "shared/image/geo_tags.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "shared/base/hash.h"
#include "shared/image/tiff_file.h"

namespace retina {
namespace {

// Tags (OGC 19-008r4, 7.1).
constexpr ttag_t kPixelScale = 33550, kTiePoints = 33922, kTransformation = 34264,
                 kKeyDirectory = 34735, kKeyDoubles = 34736, kKeyTexts = 34737;
// Keys and their values (Annex B).
constexpr int kModelType = 1024, kRasterType = 1025, kGeodeticSystem = 2048,
              kProjectedSystem = 3072;
constexpr int kGeographic = 2, kPixelIsPoint = 2;
constexpr int kUndefined = 0, kUserDefined = 32767;

// Returns the keys that have a short value of their own.
std::map<int, int> keys_of(const TiffFile& file) {
  constexpr std::size_t kEntry = 4;  // words: key, tag with the value, count, value
  const auto words = file.values<std::uint16_t>(kKeyDirectory, TIFF_SHORT);
  std::map<int, int> keys;
  for (std::size_t i = kEntry; i + kEntry <= words.size() && i / kEntry <= words[3]; i += kEntry) {
    if (words[i + 1] == 0) keys[words[i]] = words[i + 3];
  }
  return keys;
}

// Returns a hash of the values of keys_of() and of those stored in other tags.
std::uint64_t hash_of_keys(const TiffFile& file) {
  Hasher hasher;
  const auto add = [&](const auto& values) { hasher.update(values.data(), values.size_bytes()); };
  add(file.values<std::uint16_t>(kKeyDirectory, TIFF_SHORT));
  add(file.values<double>(kKeyDoubles, TIFF_DOUBLE));
  add(file.values<char>(kKeyTexts, TIFF_ASCII));
  return hasher.digest();
}

// Returns the transform from the file's own raster coordinates.
std::optional<std::array<double, 6>> transform_of(const TiffFile& file) {
  const auto scale = file.values<double>(kPixelScale, TIFF_DOUBLE);
  const auto ties = file.values<double>(kTiePoints, TIFF_DOUBLE);
  if (scale.size() >= 2 && ties.size() >= 6 && scale[0] != 0 && scale[1] != 0) {
    // Rows go south. Column, row, height; x, y, z.
    const double wide = scale[0], high = -std::abs(scale[1]);
    return {{ties[3] - ties[0] * wide, wide, 0, ties[4] - ties[1] * high, 0, high}};
  }
  const auto matrix = file.values<double>(kTransformation, TIFF_DOUBLE);
  if (matrix.size() != 16) return std::nullopt;
  return {{matrix[3], matrix[0], matrix[1], matrix[7], matrix[4], matrix[5]}};
}

}  // namespace

std::optional<GeoTags> read_geo_tags(const std::string& path) {
  const FileReader reader(path);
  const ImageBytes bytes(reader);
  std::array<char, 16> start{};
  const std::size_t count = reader.read_at(0, start.data(), start.size());
  if (image_format({start.data(), count}) != "TIFF") return std::nullopt;
  const TiffFile file(bytes, 0);
  if (file.get() == nullptr) return std::nullopt;
  const auto transform = transform_of(file);
  if (!transform) return std::nullopt;
  GeoTags tags{.transform = *transform};
  auto& t = tags.transform;
  const bool is_finite =
      std::all_of(t.begin(), t.end(), [](double value) { return std::isfinite(value); });
  // Without a determinant pixels have no area.
  if (!is_finite || t[1] * t[5] - t[2] * t[4] == 0) return std::nullopt;

  const std::map<int, int> keys = keys_of(file);
  const auto key = [&](int number) {
    const auto found = keys.find(number);
    return found == keys.end() || found->second == kUserDefined ? kUndefined : found->second;
  };
  // Coordinates of centres: move the origin to the pixel's outer corner.
  if (key(kRasterType) == kPixelIsPoint) {
    t[0] -= (t[1] + t[2]) / 2;
    t[3] -= (t[4] + t[5]) / 2;
  }
  tags.epsg = key(key(kModelType) == kGeographic ? kGeodeticSystem : kProjectedSystem);
  tags.keys = hash_of_keys(file);
  return tags;
}

}  // namespace retina
