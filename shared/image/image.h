// A decoded image: RGB, 8 bits a channel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace retina {

struct Image {
  int width = 0, height = 0;
  std::vector<std::uint8_t> rgb{};  // [height, width, 3], rows top to bottom

  Image() = default;
  // Makes a black image.
  Image(int width_px, int height_px)
      : width(width_px),
        height(height_px),
        rgb(static_cast<std::size_t>(width_px) * static_cast<std::size_t>(height_px) * 3) {}

  std::uint8_t* pixel(int x, int y) { return rgb.data() + offset(x, y); }
  const std::uint8_t* pixel(int x, int y) const { return rgb.data() + offset(x, y); }

 private:
  std::size_t offset(int x, int y) const {
    return (static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
            static_cast<std::size_t>(x)) *
           3;
  }
};

}  // namespace retina
