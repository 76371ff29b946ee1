// The binary version of CIFAR-10 (Krizhevsky 2009, https://www.cs.toronto.edu/~kriz/cifar.html):
// batch files of records, each a byte with the label and 3072 bytes with an image of 32 x 32
// pixels, its red, green and blue plane, rows from top to bottom. An image goes by the name
// "data_batch_1.bin:123", the place of its record counted from 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace retina {

inline constexpr int kCifar10SidePx = 32;
inline constexpr std::size_t kCifar10ImageBytes = std::size_t{3} * kCifar10SidePx * kCifar10SidePx;
inline constexpr std::size_t kCifar10RecordBytes = 1 + kCifar10ImageBytes;

std::string cifar10_image_name(const std::string& batch_file, std::uint64_t record);

// The place of an image of that name, kCifar10ImageBytes long; nothing for another name.
struct Cifar10Place {
  std::string batch_file{};
  std::uint64_t offset_bytes = 0;
};
std::optional<Cifar10Place> cifar10_place(const std::string& image_name);

// The three planes of an image as [32, 32, 3] u8 RGB.
std::string cifar10_rgb(std::string_view planes);

}  // namespace retina
