// The binary version of CIFAR-10 (Krizhevsky 2009, https://www.cs.toronto.edu/~kriz/cifar.html):
// batch files of records, each a byte with the label and 3072 bytes with a picture of 32 x 32
// pixels, its red, green and blue plane, rows from top to bottom. A picture goes by the name
// "data_batch_1.bin:123", the place of its record counted from 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace retina {

inline constexpr int kCifar10SidePx = 32;
inline constexpr std::size_t kCifar10PictureBytes =
    std::size_t{3} * kCifar10SidePx * kCifar10SidePx;
inline constexpr std::size_t kCifar10RecordBytes = 1 + kCifar10PictureBytes;

std::string cifar10_picture_name(const std::string& batch_file, std::uint64_t record);

// Where a picture of that name lies, kCifar10PictureBytes long; nothing for another name.
struct Cifar10Place {
  std::string batch_file{};
  std::uint64_t offset_bytes = 0;
};
std::optional<Cifar10Place> cifar10_place(const std::string& picture_name);

// The three planes of a picture as [32, 32, 3] u8 RGB.
std::string cifar10_rgb(std::string_view planes);

}  // namespace retina
