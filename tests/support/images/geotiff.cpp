#include "tests/support/images/geotiff.h"

#include <tiffio.h>

#include <array>
#include <stdexcept>

namespace retina {
namespace {

constexpr ttag_t kPixelScale = 33550, kTiePoints = 33922, kTransformation = 34264,
                 kKeyDirectory = 34735;

TIFFFieldInfo info(ttag_t tag, TIFFDataType type, const char* name) {
  return {tag, TIFF_VARIABLE, TIFF_VARIABLE, type, FIELD_CUSTOM, 1, 1, const_cast<char*>(name)};
}

template <class Value>
void set(TIFF* tiff, ttag_t tag, const std::vector<Value>& values) {
  if (!values.empty()) TIFFSetField(tiff, tag, static_cast<int>(values.size()), values.data());
}

}  // namespace

void write_geotiff(const std::string& path, const GeoLook& look) {
  TIFF* const tiff = TIFFOpen(path.c_str(), "w");
  if (tiff == nullptr) throw std::runtime_error("cannot write " + path);
  const std::array<TIFFFieldInfo, 4> fields = {info(kPixelScale, TIFF_DOUBLE, "ModelPixelScale"),
                                               info(kTiePoints, TIFF_DOUBLE, "ModelTiepoint"),
                                               info(kTransformation, TIFF_DOUBLE, "Transformation"),
                                               info(kKeyDirectory, TIFF_SHORT, "GeoKeyDirectory")};
  TIFFMergeFieldInfo(tiff, fields.data(), fields.size());
  TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, look.width);
  TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, look.height);
  TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
  TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
  TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
  TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, look.height);
  set(tiff, kPixelScale, look.scale);
  set(tiff, kTiePoints, look.ties);
  set(tiff, kTransformation, look.matrix);
  if (!look.keys.empty()) {
    std::vector<std::uint16_t> words = {1, 1, 0, static_cast<std::uint16_t>(look.keys.size() / 4)};
    words.insert(words.end(), look.keys.begin(), look.keys.end());
    set(tiff, kKeyDirectory, words);
  }
  std::vector<std::uint8_t> row(static_cast<std::size_t>(look.width));
  for (int y = 0; y < look.height; ++y) {
    TIFFWriteScanline(tiff, row.data(), static_cast<std::uint32_t>(y), 0);
  }
  TIFFClose(tiff);
}

}  // namespace retina
