#include "shared/ops/image_upload.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "shared/base/error.h"
#include "shared/ops/prepare_images.h"

namespace retina {
namespace {

ImageRow row_of(const Sample& sample, std::size_t offset) {
  ImageRow row{.offset = static_cast<std::int64_t>(offset),
               .width = sample.original_width_px,
               .height = sample.original_height_px,
               .out_width = sample.width_px,
               .out_height = sample.height_px,
               .flip = sample.slot.flip};
  if (!sample.slot.warp) return row;
  const Warp& warp = *sample.slot.warp;
  row.warps = true;
  row.fills = warp.fill == Fill::kConstant;
  const Affine source_of = pixel_matrix(
      warp,
      {.from = {row.width, row.height}, .to = {row.out_width, row.out_height}, .flip = row.flip});
  std::copy(source_of.m.begin(), source_of.m.end(), row.source_of);
  std::copy(warp.colour.m.begin(), warp.colour.m.end(), row.colour);
  return row;
}

std::size_t block_bytes(const Batch& batch) {
  if (batch.samples.empty()) return 0;
  const Sample& last = batch.samples.back();
  return batch.offsets.back() + std::size_t{3} * static_cast<std::size_t>(last.original_width_px) *
                                    static_cast<std::size_t>(last.original_height_px);
}

}  // namespace

at::Tensor ImageUpload::images(const Batch& batch) {
  if (batch.stored) return prepared(batch);
  const auto count = static_cast<std::int64_t>(batch.samples.size());
  return at::from_blob(
             batch.images.get(), {count, 3, batch.padded.height, batch.padded.width},
             [memory = batch.images](void*) {}, at::kFloat)
      .to(device_);
}

at::Tensor ImageUpload::prepared(const Batch& batch) {
  RETINA_CHECK(batch.offsets.size() == batch.samples.size());
  static_assert(std::is_trivially_copyable_v<ImageRow>);
  const auto count = static_cast<std::int64_t>(batch.samples.size());
  const at::Tensor rows =
      at::empty({count * static_cast<std::int64_t>(sizeof(ImageRow))},
                at::TensorOptions().dtype(at::kByte).pinned_memory(device_.is_cuda()));
  for (std::size_t i = 0; i < batch.samples.size(); ++i) {
    reinterpret_cast<ImageRow*>(rows.mutable_data_ptr())[i] =
        row_of(batch.samples[i], batch.offsets[i]);
  }
  const at::Tensor block =
      at::from_blob(batch.stored.get(), {static_cast<std::int64_t>(block_bytes(batch))}, at::kByte);
  const PreparedImages wanted = {
      .padded = batch.padded, .normalisation = normalisation_, .type = type_};
  const at::Tensor images = prepare_images(block.to(device_, /*non_blocking=*/true),
                                           rows.to(device_, /*non_blocking=*/true), wanted);
  if (device_.is_cpu()) return images;
  while (!under_way_.empty() && under_way_.front().done.query()) under_way_.pop_front();
  c10::Event done(device_.type());
  done.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  under_way_.push_back({std::move(done), batch.stored});
  return images;
}

}  // namespace retina
