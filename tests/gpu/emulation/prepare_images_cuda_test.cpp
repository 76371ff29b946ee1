#include <cmath>
#include <limits>

#include "tests/gpu/emulation/kernel_test.h"
#include "tests/gpu/emulation/reference.h"

namespace retina::emulation {
namespace {

using kernels::PixelType;
using kernels::PrepareImages;

class EmulatedPrepareImages : public KernelTest {};

constexpr ChannelStatistics kStatistics = {{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}};

enum class Kind { kCopied, kResized, kWarped };

// Images of any sizes for a batch of height x width, and the bytes that they are in.
std::vector<ImageRow> rows_for(Kind kind, int image_count, int height, int width) {
  Draws draws(14);
  std::vector<ImageRow> rows;
  std::int64_t offset = 0;
  for (int i = 0; i < image_count; ++i) {
    const auto side = [&](int most) { return static_cast<int>(draws.integer(1, most + 1)); };
    ImageRow row = {.offset = offset,
                    .width = side(kind == Kind::kCopied ? width : 70),
                    .height = side(kind == Kind::kCopied ? height : 70),
                    .out_width = side(width),
                    .out_height = side(height),
                    .flip = i % 2 == 1};
    if (kind == Kind::kCopied) {
      row.out_width = row.width;
      row.out_height = row.height;
    } else if (kind == Kind::kWarped) {
      row.warps = true;
      row.fills = i % 3 == 1;
      for (double& value : row.source_of) value = draws.between(-0.5, 1.5);
      row.source_of[2] = draws.between(-20, 20);
      if (i == 3) row.source_of[2] = 1e300;
      if (i == 4) row.source_of[0] = std::numeric_limits<double>::quiet_NaN();
      for (float& value : row.colour) value = static_cast<float>(draws.between(0, 1));
    }
    offset += std::int64_t{3} * row.width * row.height;
    rows.push_back(row);
  }
  return rows;
}

std::vector<std::uint8_t> bytes_of(const std::vector<ImageRow>& rows) {
  Draws draws(15);
  std::vector<std::uint8_t> bytes;
  for (const ImageRow& row : rows) {
    for (int i = 0; i < 3 * row.width * row.height; ++i) {
      bytes.push_back(static_cast<std::uint8_t>(draws.integer(0, 256)));
    }
  }
  return bytes;
}

template <class Stored>
constexpr PixelType kPixelType = PixelType::kFloat;
template <>
constexpr PixelType kPixelType<kernels::Bfloat16> = PixelType::kBfloat16;
template <>
constexpr PixelType kPixelType<kernels::Float16> = PixelType::kFloat16;

template <class Stored>
void expect_same(Kind kind, int image_count, int height, int width) {
  SCOPED_TRACE(testing::Message() << static_cast<int>(kind) << ", " << image_count << " images, "
                                  << height << " x " << width);
  const std::vector<ImageRow> image_rows = rows_for(kind, image_count, height, width);
  const DeviceArray<std::uint8_t> block(Content::kInput, bytes_of(image_rows));
  const DeviceArray<ImageRow> rows(Content::kInput, image_rows);
  const DeviceArray<Stored> found(static_cast<std::size_t>(3 * image_count * height * width));
  PrepareImages p = {.block = block.data(),
                     .rows = rows.data(),
                     .image_count = image_count,
                     .height = height,
                     .width = width,
                     .statistics = kStatistics,
                     .type = kPixelType<Stored>,
                     .out = found.data()};
  EXPECT_STREQ(kernels::prepare_images_cuda(p, nullptr), nullptr);
  std::vector<Stored> expected(found.size());
  p.out = expected.data();
  compute(p);
  expect_same_bits(found, expected, "value");
}

TEST_F(EmulatedPrepareImages, HasTheBitsOfTheCpu) {
  for (const Kind kind : {Kind::kCopied, Kind::kResized, Kind::kWarped}) {
    for (const int image_count : {0, 1, 5}) {
      for (const int height : {1, 15, 16, 17, 40}) {
        expect_same<float>(kind, image_count, height, 16);
        expect_same<kernels::Bfloat16>(kind, image_count, height, 2 * height + 3);
        expect_same<kernels::Float16>(kind, image_count, height, height);
      }
    }
  }
  expect_same<float>(Kind::kResized, 2, 0, 7);
}

TEST_F(EmulatedPrepareImages, CountsBeyond31Bits) {
  constexpr int kSide = 16384, kImages = 3, kLast = 100;
  std::vector<ImageRow> image_rows(
      kImages, {.width = 7, .height = 5, .out_width = kSide, .out_height = kSide});
  const DeviceArray<std::uint8_t> block(Content::kInput, bytes_of({image_rows.front()}));
  const DeviceArray<ImageRow> rows(Content::kInput, image_rows);
  const DeviceArray<float> found(std::size_t{3} * kImages * kSide * kSide), expected(found.size());
  PrepareImages p = {.block = block.data(),
                     .rows = rows.data(),
                     .image_count = kImages,
                     .height = kSide,
                     .width = kSide,
                     .statistics = kStatistics,
                     .type = PixelType::kFloat,
                     .out = found.data()};
  run_last_image_only();
  run_only(
      [](const uint3& at, const dim3& grid) { return at.y + 1 == grid.y && at.x + 2 >= grid.x; });
  EXPECT_STREQ(kernels::prepare_images_cuda(p, nullptr), nullptr);
  p.out = expected.data();
  for (int i = 1; i <= kLast; ++i) {
    put_pixel(p, image_rows.back(), {kSide - i, kSide - 1},
              std::int64_t{kImages} * kSide * kSide - i);
  }
  EXPECT_EQ(std::memcmp(found.data() + found.size() - 3 * kLast,
                        expected.data() + found.size() - 3 * kLast, 3 * kLast * sizeof(float)),
            0);
}

}  // namespace
}  // namespace retina::emulation
