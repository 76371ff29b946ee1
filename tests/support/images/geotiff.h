// GeoTIFFs for tests, written with the plain library.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace retina {

struct GeoLook {
  int width = 20, height = 10;
  std::vector<double> scale{};        // ModelPixelScale
  std::vector<double> ties{};         // ModelTiepoint
  std::vector<double> matrix{};       // ModelTransformation
  std::vector<std::uint16_t> keys{};  // of GeoKeyDirectory, four numbers each
};

// A grey image of 8 bits.
void write_geotiff(const std::string& path, const GeoLook& look);

}  // namespace retina
