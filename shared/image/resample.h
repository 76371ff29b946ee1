// The arithmetic of resize_normalise and warp_normalise for one pixel: a GPU computes the same bits
// from stored images (ops/prepare_images.h) as a CPU's loader, if neither fuses multiply-adds. nvcc
// reads this: plain data, C++17.
#pragma once

#include <cmath>
#include <cstdint>

#include "shared/numeric/host_device.h"

namespace retina {

// Description of how one stored image becomes an image of a batch.
struct ImageRow {
  std::int64_t offset = 0;    // place of its first byte in the block, [height, width, 3] RGB
  int width = 0, height = 0;  // stored, px
  int out_width = 0, out_height = 0;  // after the resize, px; the padding beyond is 0
  bool flip = false;                  // mirror left-right; a warp's `source_of` includes it
  bool warps = false, fills = false;  // fills: 0 outside the source, else its nearest pixel
  double source_of[6] = {};           // warp.h's pixel_matrix
  float colour[12] = {};              // warp.h's ColourMatrix
};

// Mean and deviation of each channel, in units of [0, 1].
struct ChannelStatistics {
  float mean[3] = {}, std[3] = {};
};

// Weights of the source places `first` and `first` + 1, by `fraction`.
struct Tap {
  int first = 0;
  float fraction = 0;
};

// Computes a resize's tap with the rounding of ATen's CPU kernel (UpSampleKernel.cpp), which is
// compiled with fused multiply-add: at 640 pixels one unit in the last place of the coordinate is
// 6e-5 of a pixel.
RETINA_HOST_DEVICE Tap resize_tap(int place, int from, int to) {
  if (from == to) return {place, 0.0F};
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  const float exact = std::fma(scale, static_cast<float>(place) + 0.5F, -0.5F);
  const float source = exact > 0.0F ? exact : 0.0F;
  const int whole = static_cast<int>(source);
  const int first = whole < from - 1 ? whole : from - 1;
  const float fraction = source - static_cast<float>(first);
  return {first, fraction < 1.0F ? fraction : 1.0F};
}

// Returns (byte / 255 - mean) / std, in the reference's order of f32 operations.
RETINA_HOST_DEVICE float normalised(std::uint8_t byte, const ChannelStatistics& statistics,
                                    int channel) {
  return (static_cast<float>(byte) / 255.0F - statistics.mean[channel]) / statistics.std[channel];
}

// The four source pixels around a place; the edge continues beyond the image.
struct Corners {
  const std::uint8_t* upper_left = nullptr;
  std::int64_t right = 0, below = 0;  // bytes to the next column and row
};
RETINA_HOST_DEVICE Corners corners_at(const std::uint8_t* image, const ImageRow& row, int x,
                                      int y) {
  const std::int64_t row_bytes = std::int64_t{3} * row.width;
  return {image + y * row_bytes + std::int64_t{3} * x, x + 1 < row.width ? 3 : 0,
          y + 1 < row.height ? row_bytes : 0};
}

RETINA_HOST_DEVICE void resized_pixel(const std::uint8_t* image, const ImageRow& row,
                                      const ChannelStatistics& statistics, int x, int y,
                                      float* rgb) {
  const Tap across = resize_tap(row.flip ? row.out_width - 1 - x : x, row.width, row.out_width);
  const Tap down = resize_tap(y, row.height, row.out_height);
  const Corners at = corners_at(image, row, across.first, down.first);
  const float left = 1.0F - across.fraction, upper = 1.0F - down.fraction;
  for (int c = 0; c < 3; ++c) {
    const std::uint8_t* const byte = at.upper_left + c;
    const float above = left * normalised(byte[0], statistics, c) +
                        across.fraction * normalised(byte[at.right], statistics, c);
    const float under = left * normalised(byte[at.below], statistics, c) +
                        across.fraction * normalised(byte[at.below + at.right], statistics, c);
    rgb[c] = upper * above + down.fraction * under;
  }
}

// Returns the tap of place `at`, clamped to the `side` of the source.
RETINA_HOST_DEVICE Tap warp_tap(double at, int side) {
  const double last = side - 1.0;
  const double from_zero = at > 0 ? at : 0;
  const double inside = from_zero < last ? from_zero : last;
  const int whole = static_cast<int>(inside);
  return {whole, static_cast<float>(inside - whole)};
}
RETINA_HOST_DEVICE bool is_outside(double at, int side) {
  return !(at >= -0.5 && at <= side - 0.5);
}

RETINA_HOST_DEVICE void warped_pixel(const std::uint8_t* image, const ImageRow& row,
                                     const ChannelStatistics& statistics, int x, int y,
                                     float* rgb) {
  const double* const m = row.source_of;
  const double source_x = (m[0] * x + m[1] * y) + m[2], source_y = (m[3] * x + m[4] * y) + m[5];
  const float shown =
      row.fills && (is_outside(source_x, row.width) || is_outside(source_y, row.height)) ? 0.0F
                                                                                         : 1.0F;
  const Tap across = warp_tap(source_x, row.width), down = warp_tap(source_y, row.height);
  const Corners at = corners_at(image, row, across.first, down.first);
  const float right = across.fraction, lower = down.fraction;
  const float upper_right = (1 - lower) * right, upper_left = (1 - lower) - upper_right;
  const float lower_right = lower * right, lower_left = lower - lower_right;
  float sample[3];
  for (int c = 0; c < 3; ++c) {
    const std::uint8_t* const byte = at.upper_left + c;
    const auto level = [](std::uint8_t value) { return static_cast<float>(value) / 255.0F; };
    sample[c] =
        (upper_left * level(byte[0]) + upper_right * level(byte[at.right])) +
        (lower_left * level(byte[at.below]) + lower_right * level(byte[at.below + at.right]));
  }
  for (int c = 0; c < 3; ++c) {
    const float* const colour = row.colour + 4 * c;
    const float value =
        colour[0] * sample[0] + colour[1] * sample[1] + colour[2] * sample[2] + colour[3];
    const float clipped = value < 0.0F ? 0.0F : value > 1.0F ? 1.0F : value;
    const float scale = 1 / statistics.std[c];
    rgb[c] = (clipped - statistics.mean[c]) * scale * shown;
  }
}

// Computes red, green and blue of pixel (x, y) of a padded image.
RETINA_HOST_DEVICE void batch_pixel(const std::uint8_t* block, const ImageRow& row,
                                    const ChannelStatistics& statistics, int x, int y, float* rgb) {
  if (x >= row.out_width || y >= row.out_height) {
    rgb[0] = rgb[1] = rgb[2] = 0.0F;
  } else if (row.warps) {
    warped_pixel(block + row.offset, row, statistics, x, y, rgb);
  } else {
    resized_pixel(block + row.offset, row, statistics, x, y, rgb);
  }
}

}  // namespace retina
