// What finds objects in images: a RetinaNet in training form or a converted model, behind one
// interface. `prepare` runs on decode threads, `find` on the caller's.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "shared/image/image.h"
#include "shared/model/config.h"
#include "shared/model/postprocess.h"
#include "shared/model/retinanet.h"

namespace retina {

// An image as the network takes it.
struct PreparedImage {
  at::Tensor pixels;          // [3, H, W], f32 normalised and padded, or u8 for a converted model
  int width = 0, height = 0;  // of the original image
};

// One found object, in pixels of the original image.
struct FoundObject {
  std::array<float, 4> box{};  // xyxy
  float score = 0;
  int label = 0;  // dense
};

// A batch shape: images of equal shapes may share a call of `find`.
struct InputShape {
  int width = 0, height = 0;
  bool operator==(const InputShape&) const = default;
};

class Detector {
 public:
  virtual ~Detector() = default;
  // The shape that an image of this size gets.
  virtual InputShape input_shape(int width, int height) const = 0;
  // Thread-safe.
  virtual PreparedImage prepare(const Image& image) const = 0;
  // Objects of each image, best first. All images have one input shape; at least one image.
  virtual std::vector<std::vector<FoundObject>> find(const std::vector<PreparedImage>& images) = 0;
};

// A detector around `model`, which must outlive it, on the device where its parameters are. `find`
// runs without gradients and leaves training mode as it found it. An image is padded to its own
// multiple of 32: co-batching with larger neighbours would move the anchors.
std::unique_ptr<Detector> make_model_detector(RetinaNet model, const PostprocessOptions& options);

}  // namespace retina
