// What an inference model leaves to choose.
#pragma once

#include <optional>

#include "shared/anchor/anchor.h"
#include "shared/base/choices.h"

namespace retina {

// How the weights of convolutions and dense layers are stored. f32; f16: rounded to 16 bits,
// computed in f32; int8: the convolutions' and their inputs rounded to 8 bits, for CPUs that
// multiply such numbers fast. Biases stay f32.
enum class WeightType { kF32, kF16, kInt8 };

// Their words on command lines and in models; part of the format, never rename.
inline const Choices<WeightType> kWeightTypes = {
    {"f32", WeightType::kF32}, {"f16", WeightType::kF16}, {"int8", WeightType::kInt8}};

struct OnnxForm {
  WeightType weights = WeightType::kF32;
  // The size of all images, for runtimes that want every size known; unset: any.
  std::optional<PixelSize> image{};
  // Of a detector: false leaves the choice of the best and suppression to who runs it; the model
  // gives every anchor's box and scores.
  bool postprocess = true;
};

}  // namespace retina
