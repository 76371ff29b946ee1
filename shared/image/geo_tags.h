// The position of a GeoTIFF (OGC 19-008r4, GeoTIFF 1.1): from pixels to the file's own coordinates,
// by its own tags. Nothing is projected.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace retina {

struct GeoTags {
  // [x0, dx/dcolumn, dx/drow, y0, dy/dcolumn, dy/drow], as in GDAL: x = t[0] + t[1] * column + t[2]
  // * row, y = t[3] + t[4] * column + t[5] * row. Column and row count pixels from the outer corner
  // of the image's first one, whose centre is (0.5, 0.5), whatever convention the file uses.
  std::array<double, 6> transform{};
  int epsg = 0;            // the number of the coordinate system (32633); 0: it has none
  std::uint64_t keys = 0;  // hash of the file's words about the system: equal for equal words

  std::array<double, 2> at(double column, double row) const {
    return {transform[0] + transform[1] * column + transform[2] * row,
            transform[3] + transform[4] * column + transform[5] * row};
  }
};

// Reads the tags of a TIFF's first page. Returns nothing for other formats and for a file without
// an affine transform: neither ModelTransformation nor ModelPixelScale with a tie point, or one
// whose pixels have no area. Tie points alone (control points) do not count. Throws as FileReader.
std::optional<GeoTags> read_geo_tags(const std::string& path);

}  // namespace retina
