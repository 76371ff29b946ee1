// PNG, TIFF and WebP files for tests, written with the plain libraries.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/image/image.h"

namespace retina {

// Colours that differ from pixel to pixel.
Image colourful(int width, int height);

struct PngLook {
  int width = 16, height = 16;
  int bit_depth = 8;    // of a sample: 1, 2, 4, 8, 16
  int colour_type = 2;  // 0 grey, 2 RGB, 3 palette, 4 grey + alpha, 6 RGB + alpha
  bool interlaced = false;
  bool transparent = false;  // with a tRNS chunk
};
// `samples` in the file's order, one value each: height * width * channels.
std::string encode_png(const PngLook& look, const std::vector<std::uint16_t>& samples);
// The palette of colour type 3: entry i.
std::vector<std::uint8_t> palette_entry(int i);

// Numbers as in tiff.h of libtiff.
struct TiffLook {
  int width = 16, height = 16;
  int bits = 8, samples = 3, photometric = 2, sample_format = 1;
  int compression = 1;                 // none; 5 LZW, 7 JPEG, 8 deflate, 32773 PackBits
  std::vector<std::uint16_t> extra{};  // samples that are no colours: 0 anything, 1 premultiplied
                                       // alpha, 2 alpha
  int tile_px = 0;                     // a multiple of 16; 0: in strips
  int rows_per_strip = 5;
  bool separate = false;  // a plane for each sample
  int orientation = 1;
  bool is_preview = false;
  bool is_big = false;  // BigTIFF
  int pages = 1;        // the others are black
  // Strips and tiles of which all samples are this are left out, as GDAL does (SPARSE_OK).
  std::optional<int> left_out{};
  std::string nodata{};  // GDAL's note
};
// `samples` as for a PNG; those of 32 bits and palettes likewise.
std::string encode_tiff(const TiffLook& look, const std::vector<std::uint16_t>& samples);

std::string encode_png(const Image& image);
std::string encode_tiff(const Image& image);
std::string encode_webp(const Image& image);  // lossless
std::string encode_lossy_webp(const Image& image, float quality);

// A JPEG, PNG or WebP with EXIF data that say how it is stored (orientation.h).
std::string with_orientation(const std::string& file, int orientation);

// A field of a TIFF's directory.
struct TiffField {
  int tag = 0, type = 4;  // as in tiff.h of libtiff
  std::vector<std::uint64_t> values{};
};
// A little-endian TIFF of nothing but its header and these fields, in this order, with `pixels`
// behind them: what no writer makes.
std::string raw_tiff(const std::vector<TiffField>& fields, const std::string& pixels = "");
// A sparse one of 8-bit RGB in tiles, none of which is in the file.
std::string sparse_tiff(int width, int height, int tile_width, int tile_height);

}  // namespace retina
