#include "shared/ops/prepare_images.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstring>

#include "shared/image/image.h"
#include "shared/image/warp.h"
#include "shared/numeric/random.h"
#include "tests/ops/test_batch.h"

namespace retina {
namespace {

// What the loader makes of the same images on a CPU.
at::Tensor by_loader(const TestBatch& batch, const PreparedImages& wanted) {
  const auto count = static_cast<std::int64_t>(batch.images.size());
  const at::Tensor out = torch::zeros({count, 3, wanted.padded.height, wanted.padded.width});
  for (std::int64_t i = 0; i < count; ++i) {
    const auto place = static_cast<std::size_t>(i);
    const ImageRow& row = batch.rows[place];
    const ResizeTarget target = {
        .width = row.out_width,
        .height = row.out_height,
        .row_stride = wanted.padded.width,
        .plane_stride = std::int64_t{wanted.padded.width} * wanted.padded.height,
        .flip = row.flip};
    float* const planes = out[i].mutable_data_ptr<float>();
    if (row.warps) {
      warp_normalise(batch.images[place], target, batch.warps[place], wanted.normalisation, planes);
    } else {
      resize_normalise(batch.images[place], target, wanted.normalisation, planes);
    }
  }
  return out;
}

TEST(PrepareImages, HasTheBitsOfTheLoader) {
  for (const bool warped : {false, true}) {
    const TestBatch batch = test_batch(warped);
    const PreparedImages wanted = {.padded = {160, 128}};
    const at::Tensor images = prepare_images(batch.block(), batch.table(), wanted);
    EXPECT_TRUE(images.is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_TRUE(images.equal(by_loader(batch, wanted))) << warped;
  }
}

TEST(PrepareImages, RoundsTo16BitAsLibTorchDoes) {
  const TestBatch batch = test_batch(true);
  PreparedImages wanted = {.padded = {160, 128}};
  const at::Tensor exact = prepare_images(batch.block(), batch.table(), wanted);
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    wanted.type = type;
    const at::Tensor rounded = prepare_images(batch.block(), batch.table(), wanted);
    EXPECT_TRUE(rounded.equal(exact.to(type))) << type;
  }
}

TEST(PrepareImages, TakesABatchWithoutImages) {
  const at::Tensor none = torch::empty({0}, at::kByte);
  const at::Tensor images = prepare_images(none, none, {.padded = {64, 32}});
  EXPECT_EQ(images.sizes(), (std::vector<std::int64_t>{0, 3, 32, 64}));
}

}  // namespace
}  // namespace retina
