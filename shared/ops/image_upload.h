// A batch's pixels on their way to where the network computes.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <deque>
#include <memory>

#include "shared/data/batch.h"

namespace retina {

class ImageUpload {
 public:
  // `normalisation` and `type` are for batches of stored images: what becomes of them, kFloat,
  // kBFloat16 or kHalf.
  ImageUpload(c10::Device device, const Normalisation& normalisation, at::ScalarType type)
      : device_(device), normalisation_(normalisation), type_(type) {}

  // [N, 3, H, W] on the device. Ready images come as they are, f32 (on a CPU in the batch's own
  // memory, which is not used again while the result lives); stored images in one block, with a
  // row for each (ops/prepare_images.h). A GPU copies from page-locked memory while the caller
  // goes on: the batch's memory is kept until it has.
  at::Tensor images(const Batch& batch);

 private:
  struct Copy {
    c10::Event done;
    std::shared_ptr<std::uint8_t[]> from;
  };
  at::Tensor prepared(const Batch& batch);

  c10::Device device_;
  Normalisation normalisation_;
  at::ScalarType type_;
  std::deque<Copy> under_way_;
};

}  // namespace retina
