// The ranges of a network's values on images, for weights and values of 8 bits.
#pragma once

#include <string>
#include <vector>

#include "shared/image/image.h"
#include "shared/onnx/onnx_model.h"

namespace retina {

// Runs the f32 `model` on every image and returns the range of each of its rounded_values: the mean
// over the images of their least and largest numbers, which leaves out an image's rare extremes.
// `subject` begins the messages. Throws as OnnxSession.
ValueRanges ranges_on(const OnnxModel& model, const std::vector<Image>& images,
                      const std::string& subject);

}  // namespace retina
