#include "tests/support/images/images.h"

#include <png.h>
#include <tiffio.h>
#include <webp/decode.h>
#include <webp/encode.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace retina {
namespace {

void append(png_structp png, png_bytep bytes, std::size_t count) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<char*>(bytes), count);
}
void flush(png_structp) {}

std::string taken(std::uint8_t* bytes, std::size_t size_bytes) {
  if (size_bytes == 0) throw std::runtime_error("libwebp cannot encode");
  std::string out(reinterpret_cast<const char*>(bytes), size_bytes);
  WebPFree(bytes);
  return out;
}

// A file in memory that libtiff writes.
struct TiffMemory {
  std::string bytes{};
  std::size_t at = 0;

  static TiffMemory& of(thandle_t self) { return *static_cast<TiffMemory*>(self); }
  static tmsize_t read(thandle_t self, void* to, tmsize_t count) {
    TiffMemory& file = of(self);
    const std::size_t got =
        file.bytes.copy(static_cast<char*>(to), static_cast<std::size_t>(count), file.at);
    file.at += got;
    return static_cast<tmsize_t>(got);
  }
  static tmsize_t write(thandle_t self, void* from, tmsize_t count) {
    TiffMemory& file = of(self);
    const auto size = static_cast<std::size_t>(count);
    file.bytes.resize(std::max(file.bytes.size(), file.at + size));
    std::memcpy(file.bytes.data() + file.at, from, size);
    file.at += size;
    return count;
  }
  static toff_t seek(thandle_t self, toff_t offset, int whence) {
    TiffMemory& file = of(self);
    const std::size_t from = whence == SEEK_SET   ? 0
                             : whence == SEEK_CUR ? file.at
                                                  : file.bytes.size();
    return file.at = from + offset;
  }
  static int close(thandle_t) { return 0; }
  static toff_t size(thandle_t self) { return of(self).bytes.size(); }
};

// Values of `bits` bits, the first one in the upper bits of a byte; of 16 and 32 in this machine's
// order.
std::vector<std::uint8_t> packed_row(const std::vector<std::uint16_t>& values, std::size_t bits) {
  std::vector<std::uint8_t> row((values.size() * bits + 7) / 8);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const unsigned value = values[i];
    if (bits == 16 || bits == 32) {
      std::memcpy(row.data() + i * bits / 8, &value, bits / 8);
      continue;
    }
    for (std::size_t bit = 0; bit < bits; ++bit) {
      const std::size_t at = i * bits + bit;
      const unsigned one = value >> (bits - 1 - bit) & 1U;
      row[at / 8] = static_cast<std::uint8_t>(row[at / 8] | one << (7 - at % 8));
    }
  }
  return row;
}

void set_tiff_fields(TIFF* tiff, const TiffLook& look) {
  if (!look.nodata.empty()) {
    constexpr ttag_t kGdalNodata = 42113;
    static char name[] = "GDALNoDataValue";
    const TIFFFieldInfo field = {kGdalNodata, -1, -1, TIFF_ASCII, FIELD_CUSTOM, 1, 0, name};
    TIFFMergeFieldInfo(tiff, &field, 1);
    TIFFSetField(tiff, kGdalNodata, look.nodata.c_str());
  }
  TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, look.width);
  TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, look.height);
  TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, look.bits);
  TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, look.samples);
  TIFFSetField(tiff, TIFFTAG_SAMPLEFORMAT, look.sample_format);
  TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, look.photometric);
  TIFFSetField(tiff, TIFFTAG_COMPRESSION, look.compression);
  TIFFSetField(tiff, TIFFTAG_ORIENTATION, look.orientation);
  TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, look.separate ? 2 : 1);
  if (look.is_preview) TIFFSetField(tiff, TIFFTAG_SUBFILETYPE, FILETYPE_REDUCEDIMAGE);
  if (!look.extra.empty()) {
    TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, static_cast<int>(look.extra.size()),
                 look.extra.data());
  }
  if (look.tile_px > 0) {
    TIFFSetField(tiff, TIFFTAG_TILEWIDTH, look.tile_px);
    TIFFSetField(tiff, TIFFTAG_TILELENGTH, look.tile_px);
  } else {
    TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, look.rows_per_strip);
  }
  if (look.photometric == PHOTOMETRIC_PALETTE) {
    std::vector<std::uint16_t> map[3];
    for (int i = 0; i < 1 << look.bits; ++i) {
      for (std::size_t c = 0; c < 3; ++c) {
        map[c].push_back(static_cast<std::uint16_t>(palette_entry(i)[c] * 257));
      }
    }
    TIFFSetField(tiff, TIFFTAG_COLORMAP, map[0].data(), map[1].data(), map[2].data());
  }
  if (look.photometric == PHOTOMETRIC_YCBCR && look.compression == COMPRESSION_JPEG) {
    TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);  // what is written
  }
}

int channels_of(int colour_type) {
  switch (colour_type) {
    case PNG_COLOR_TYPE_RGB:
      return 3;
    case PNG_COLOR_TYPE_GRAY_ALPHA:
      return 2;
    case PNG_COLOR_TYPE_RGB_ALPHA:
      return 4;
    default:
      return 1;
  }
}

}  // namespace

Image colourful(int width, int height) {
  Image image(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      image.pixel(x, y)[0] = static_cast<std::uint8_t>(255 * x / width);
      image.pixel(x, y)[1] = static_cast<std::uint8_t>(255 * y / height);
      image.pixel(x, y)[2] = static_cast<std::uint8_t>((x * 7) ^ (y * 5));
    }
  }
  return image;
}

std::vector<std::uint8_t> palette_entry(int i) {
  return {static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(255 - i),
          static_cast<std::uint8_t>(i * 37)};
}

std::string encode_png(const PngLook& look, const std::vector<std::uint16_t>& samples) {
  std::string out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &out, append, flush);
  png_set_IHDR(png, info, static_cast<png_uint_32>(look.width),
               static_cast<png_uint_32>(look.height), look.bit_depth, look.colour_type,
               look.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (look.colour_type == PNG_COLOR_TYPE_PALETTE) {
    std::vector<png_color> palette;
    for (int i = 0; i < 1 << look.bit_depth; ++i) {
      const auto entry = palette_entry(i);
      palette.push_back({entry[0], entry[1], entry[2]});
    }
    png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  }
  if (look.transparent) {
    png_byte alphas[] = {0, 128};
    png_color_16 colour{.index = 0, .red = 1, .green = 1, .blue = 1, .gray = 1};
    png_set_tRNS(png, info, alphas, 2, &colour);
  }
  png_set_gAMA(png, info, 1.0);  // a reader that minds it gives other pixels
  png_write_info(png, info);
  const auto width = static_cast<std::size_t>(look.width);
  const std::size_t per_row = width * static_cast<std::size_t>(channels_of(look.colour_type));
  const auto bits = static_cast<std::size_t>(look.bit_depth);
  std::vector<std::vector<png_byte>> rows;
  std::vector<png_bytep> places;
  for (std::size_t y = 0; y < static_cast<std::size_t>(look.height); ++y) {
    std::vector<png_byte> row((per_row * bits + 7) / 8);
    for (std::size_t i = 0; i < per_row; ++i) {
      const unsigned value = samples.at(y * per_row + i);
      if (bits == 16) {
        row[2 * i] = static_cast<png_byte>(value >> 8);
        row[2 * i + 1] = static_cast<png_byte>(value & 255U);
      } else {
        const std::size_t shift = 8 - bits - i * bits % 8;
        row[i * bits / 8] = static_cast<png_byte>(row[i * bits / 8] | value << shift);
      }
    }
    rows.push_back(std::move(row));
  }
  for (auto& row : rows) places.push_back(row.data());
  png_write_image(png, places.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return out;
}

std::string encode_tiff(const TiffLook& look, const std::vector<std::uint16_t>& samples) {
  TiffMemory file;
  TIFF* const tiff =
      TIFFClientOpen("test", look.is_big ? "w8" : "w", &file, TiffMemory::read, TiffMemory::write,
                     TiffMemory::seek, TiffMemory::close, TiffMemory::size, nullptr, nullptr);
  const auto width = static_cast<std::size_t>(look.width),
             height = static_cast<std::size_t>(look.height),
             channels = static_cast<std::size_t>(look.samples),
             bits = static_cast<std::size_t>(look.bits);
  const std::size_t planes = look.separate ? channels : 1, per_pixel = channels / planes;
  for (int page = 0; page < look.pages; ++page) {
    set_tiff_fields(tiff, look);
    // Row `y` of a plane from column `x` on, `count` pixels, zeros beyond the image.
    const auto row = [&](std::size_t plane, std::size_t y, std::size_t x, std::size_t count) {
      std::vector<std::uint16_t> values;
      for (std::size_t i = 0; i < count * per_pixel; ++i) {
        const std::size_t column = x + i / per_pixel;
        const bool is_there = page == 0 && y < height && column < width;
        values.push_back(is_there
                             ? samples.at((y * width + column) * channels + plane + i % per_pixel)
                             : std::uint16_t{0});
      }
      return packed_row(values, bits);
    };
    const auto is_left_out = [&](std::size_t plane, std::size_t y, std::size_t x,
                                 std::size_t part_width, std::size_t part_height) {
      if (!look.left_out) return false;
      for (std::size_t i = y; i < std::min(y + part_height, height); ++i) {
        for (std::size_t j = x; j < std::min(x + part_width, width); ++j) {
          for (std::size_t k = plane; k < plane + per_pixel; ++k) {
            if (samples.at((i * width + j) * channels + k) != *look.left_out) return false;
          }
        }
      }
      return true;
    };
    const auto side = static_cast<std::size_t>(look.tile_px);
    const auto strip_rows = static_cast<std::size_t>(look.rows_per_strip);
    for (std::size_t plane = 0; plane < planes; ++plane) {
      for (std::size_t y = 0; side == 0 && y < height; ++y) {
        if (is_left_out(plane, y / strip_rows * strip_rows, 0, width, strip_rows)) continue;
        auto line = row(plane, y, 0, width);
        TIFFWriteScanline(tiff, line.data(), static_cast<std::uint32_t>(y),
                          static_cast<std::uint16_t>(plane));
      }
      for (std::size_t y = 0; side > 0 && y < height; y += side) {
        for (std::size_t x = 0; x < width; x += side) {
          if (is_left_out(plane, y, x, side, side)) continue;
          std::vector<std::uint8_t> tile;
          for (std::size_t i = 0; i < side; ++i) {
            const auto line = row(plane, y + i, x, side);
            tile.insert(tile.end(), line.begin(), line.end());
          }
          TIFFWriteTile(tiff, tile.data(), static_cast<std::uint32_t>(x),
                        static_cast<std::uint32_t>(y), 0, static_cast<std::uint16_t>(plane));
        }
      }
    }
    TIFFWriteDirectory(tiff);
  }
  TIFFClose(tiff);
  return file.bytes;
}

std::string encode_tiff(const Image& image) {
  return encode_tiff({.width = image.width, .height = image.height},
                     {image.rgb.begin(), image.rgb.end()});
}

std::string encode_png(const Image& image) {
  return encode_png({.width = image.width, .height = image.height},
                    {image.rgb.begin(), image.rgb.end()});
}

std::string encode_webp(const Image& image) {
  std::uint8_t* bytes = nullptr;
  const std::size_t size_bytes =
      WebPEncodeLosslessRGB(image.rgb.data(), image.width, image.height, image.width * 3, &bytes);
  return taken(bytes, size_bytes);
}

std::string encode_lossy_webp(const Image& image, float quality) {
  std::uint8_t* bytes = nullptr;
  const std::size_t size_bytes =
      WebPEncodeRGB(image.rgb.data(), image.width, image.height, image.width * 3, quality, &bytes);
  return taken(bytes, size_bytes);
}

namespace {

std::string number(std::uint64_t value, int size_bytes, bool is_big_endian) {
  std::string bytes;
  for (int i = 0; i < size_bytes; ++i) {
    bytes += static_cast<char>(value >> (8 * (is_big_endian ? size_bytes - 1 - i : i)));
  }
  return bytes;
}

// PNG (Third Edition), annex D.
std::uint32_t crc_of(const std::string& bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc ^= static_cast<std::uint8_t>(byte);
    for (int i = 0; i < 8; ++i) crc = (crc & 1U) != 0 ? 0xEDB88320 ^ crc >> 1 : crc >> 1;
  }
  return ~crc;
}

}  // namespace

std::string with_orientation(const std::string& file, int orientation) {
  std::string tiff("MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", 19);
  tiff += static_cast<char>(orientation);
  tiff += std::string("\0\0\0\0\0\0", 6);
  if (file.starts_with("\x89PNG")) {
    constexpr std::size_t kAfterHeader = 33;
    const std::string chunk = "eXIf" + tiff;
    return file.substr(0, kAfterHeader) + number(tiff.size(), 4, true) + chunk +
           number(crc_of(chunk), 4, true) + file.substr(kAfterHeader);
  }
  if (file.starts_with("RIFF")) {
    int width = 0, height = 0;
    WebPGetInfo(reinterpret_cast<const std::uint8_t*>(file.data()), file.size(), &width, &height);
    std::string chunks = "WEBPVP8X" + number(10, 4, false) + number(8, 4, false);
    for (const int side : {width, height})
      chunks += number(static_cast<unsigned>(side - 1), 3, false);
    chunks += file.substr(12) + "EXIF" + number(tiff.size(), 4, false) + tiff;
    return "RIFF" + number(chunks.size(), 4, false) + chunks;
  }
  const std::string content = std::string("Exif\0\0", 6) + tiff;
  const std::string segment = std::string("\xFF\xE1\0", 3) + static_cast<char>(content.size() + 2);
  return file.substr(0, 2) + segment + content + file.substr(2);
}

std::string raw_tiff(const std::vector<TiffField>& fields, const std::string& pixels) {
  constexpr std::size_t kHeader = 8;
  const std::size_t end = kHeader + 2 + 12 * fields.size() + 4;
  std::string directory = number(fields.size(), 2, false), values;
  for (const TiffField& field : fields) {
    const int size_bytes = field.type == 3 ? 2 : field.type == 4 ? 4 : field.type == 16 ? 8 : 1;
    std::string bytes;
    for (const std::uint64_t value : field.values) bytes += number(value, size_bytes, false);
    directory += number(static_cast<unsigned>(field.tag), 2, false) +
                 number(static_cast<unsigned>(field.type), 2, false) +
                 number(field.values.size(), 4, false);
    if (bytes.size() > 4) {
      directory += number(end + values.size(), 4, false);
      values += bytes;
    } else {
      bytes.resize(4);
      directory += bytes;
    }
  }
  return std::string("II*\0", 4) + number(kHeader, 4, false) + directory + number(0, 4, false) +
         values + pixels;
}

std::string sparse_tiff(int width, int height, int tile_width, int tile_height) {
  const auto number_of = [](int value) { return static_cast<std::uint64_t>(value); };
  const auto parts = [&](int side, int tile) { return number_of((side + tile - 1) / tile); };
  const std::vector<std::uint64_t> nowhere(parts(width, tile_width) * parts(height, tile_height));
  return raw_tiff({{256, 4, {number_of(width)}},
                   {257, 4, {number_of(height)}},
                   {258, 3, {8, 8, 8}},
                   {259, 3, {1}},
                   {262, 3, {2}},
                   {277, 3, {3}},
                   {322, 4, {number_of(tile_width)}},
                   {323, 4, {number_of(tile_height)}},
                   {324, 4, nowhere},
                   {325, 4, nowhere}});
}

}  // namespace retina
