#include "shared/ops/prepare_images.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "shared/ops/dispatch.h"
#include "shared/ops/own_kernels.h"

namespace retina {
namespace kernels {
namespace {

PixelType pixel_type(at::ScalarType type) {
  if (type == at::kBFloat16) return PixelType::kBfloat16;
  if (type == at::kHalf) return PixelType::kFloat16;
  RETINA_CHECK(type == at::kFloat, "got ", type);
  return PixelType::kFloat;
}

void prepare_images_cpu(const PrepareImages& p) {
  at::parallel_for(0, p.image_count * p.height, 1, [&p](std::int64_t begin, std::int64_t end) {
    for (std::int64_t line = begin; line < end; ++line) {
      const ImageRow& row = p.rows[line / p.height];
      for (int x = 0; x < p.width; ++x) {
        put_pixel(p, row, {x, static_cast<int>(line % p.height)}, line * p.width + x);
      }
    }
  });
}

}  // namespace
}  // namespace kernels

at::Tensor prepare_images(const at::Tensor& block, const at::Tensor& rows,
                          const PreparedImages& images) {
  RETINA_CHECK(block.scalar_type() == at::kByte && rows.scalar_type() == at::kByte);
  RETINA_CHECK(block.is_contiguous() && rows.is_contiguous() && block.device() == rows.device());
  constexpr auto kRowBytes = static_cast<std::int64_t>(sizeof(ImageRow));
  RETINA_CHECK(rows.numel() % kRowBytes == 0);
  if (is_replaced(OwnKernel::kPrepareImages, block)) {
    return prepare_images(block.cpu(), rows.cpu(), images).to(block.device());
  }
  const c10::DeviceGuard guard(block.device());
  const at::Tensor out =
      at::empty({rows.numel() / kRowBytes, 3, images.padded.height, images.padded.width},
                block.options().dtype(images.type).memory_format(at::MemoryFormat::ChannelsLast));
  kernels::PrepareImages arguments = {
      .block = block.const_data_ptr<std::uint8_t>(),
      .rows = reinterpret_cast<const ImageRow*>(rows.const_data_ptr<std::uint8_t>()),
      .image_count = out.size(0),
      .height = images.padded.height,
      .width = images.padded.width,
      .statistics = {},
      .type = kernels::pixel_type(images.type),
      .out = out.mutable_data_ptr()};
  std::copy_n(images.normalisation.mean.begin(), 3, arguments.statistics.mean);
  std::copy_n(images.normalisation.std.begin(), 3, arguments.statistics.std);
  kernels::run_implementation("prepare_images", block, arguments, kernels::prepare_images_cpu);
  return out;
}

}  // namespace retina
