// Where a GeoTIFF lies (OGC 19-008r4, GeoTIFF 1.1): from pixels to the coordinates that the file is
// in, by its own tags. Nothing is projected.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace retina {

struct GeoTags {
  // [x0, dx/dcolumn, dx/drow, y0, dy/dcolumn, dy/drow], as GDAL has it: x = t[0] + t[1] * column +
  // t[2] * row, y = t[3] + t[4] * column + t[5] * row. Column and row count pixels from the outer
  // corner of the image's first one, whose centre is (0.5, 0.5), whatever the file calls a pixel.
  std::array<double, 6> transform{};
  int epsg = 0;            // the number of the coordinate system (32633); 0: it has none
  std::uint64_t keys = 0;  // hash of all that the file says of the system: equal for equal words
  std::string unit{};      // "metre", "degree", "foot", "US survey foot"; empty: not known
  bool is_point = false;   // the file's own coordinates are those of the pixels' centres

  std::array<double, 2> at(double column, double row) const {
    return {transform[0] + transform[1] * column + transform[2] * row,
            transform[3] + transform[4] * column + transform[5] * row};
  }
};

// Of a TIFF's first page. Nothing for other formats and where the file has no affine transform:
// neither ModelTransformation nor ModelPixelScale with a tie point, or one whose pixels have no
// area. Tie points alone (control points) are none. Throws as FileReader.
std::optional<GeoTags> read_geo_tags(const std::string& path);

}  // namespace retina
