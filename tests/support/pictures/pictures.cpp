#include "tests/support/pictures/pictures.h"

#include <png.h>
#include <webp/encode.h>

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

}  // namespace retina
