#include "tests/ops/test_batch.h"

#include <torch/types.h>

#include <algorithm>
#include <cstring>

#include "shared/numeric/random.h"

namespace retina {

at::Tensor TestBatch::block() const {
  std::vector<std::uint8_t> bytes;
  for (const Image& image : images) bytes.insert(bytes.end(), image.rgb.begin(), image.rgb.end());
  return torch::tensor(bytes, at::kByte);
}

at::Tensor TestBatch::table() const {
  const at::Tensor table =
      torch::empty({static_cast<std::int64_t>(rows.size() * sizeof(ImageRow))}, at::kByte);
  std::memcpy(table.mutable_data_ptr(), rows.data(), rows.size() * sizeof(ImageRow));
  return table;
}

TestBatch test_batch(bool warped) {
  struct Sizes {
    ImageSize from, to;
  };
  const std::vector<Sizes> sizes = {{{200, 150}, {160, 120}}, {{33, 70}, {60, 128}},
                                    {{64, 64}, {64, 64}},     {{1, 1}, {5, 7}},
                                    {{90, 3}, {160, 6}},      {{199, 101}, {31, 17}}};
  const RandomStream random{.seed = 20261123, .use = RandomUse::kTest};
  std::uint64_t draw = 0;
  const auto between = [&](double low, double high) {
    return low + (high - low) * random.unit(draw++);
  };
  TestBatch batch;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < 2 * sizes.size(); ++i) {
    const auto& [from, to] = sizes[i / 2];
    Image& image = batch.images.emplace_back(from.width, from.height);
    for (auto& byte : image.rgb) byte = static_cast<std::uint8_t>(random.below(draw++, 256));
    ImageRow row = {.offset = offset,
                    .width = from.width,
                    .height = from.height,
                    .out_width = to.width,
                    .out_height = to.height,
                    .flip = i % 2 == 1};
    Warp& warp = batch.warps.emplace_back();
    if (warped) {
      warp = {.source_of = {{between(0.5, 1.5), between(-0.3, 0.3), between(-0.3, 0.3),
                             between(-0.3, 0.3), between(0.5, 1.5), between(-0.3, 0.3)}},
              .colour = colour_matrix({.contrast = between(0.8, 1.2),
                                       .brightness = between(-0.2, 0.2),
                                       .saturation = between(0.8, 1.2),
                                       .hue = between(-0.1, 0.1)}),
              .fill = i % 4 < 2 ? Fill::kNearest : Fill::kConstant};
      row.warps = true;
      row.fills = warp.fill == Fill::kConstant;
      const Affine source_of = pixel_matrix(warp, {.from = from, .to = to, .flip = row.flip});
      std::copy(source_of.m.begin(), source_of.m.end(), row.source_of);
      std::copy(warp.colour.m.begin(), warp.colour.m.end(), row.colour);
    }
    batch.rows.push_back(row);
    offset += static_cast<std::int64_t>(image.rgb.size());
  }
  return batch;
}

}  // namespace retina
