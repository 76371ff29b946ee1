// A converted model over images: what detecting and classifying with one have in common. Only
// converted_*.cpp include this.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "shared/data/sample_source.h"
#include "shared/evaluation/predict/converted_model.h"
#include "shared/evaluation/predict/detect.h"

namespace retina {

// Called with each batch and its images, u8 [N, 3, H, W].
using UseImages = std::function<void(const Batch& batch, const at::Tensor& images)>;

// Gives `use` this rank's share of the samples at their own sizes, images of equal size together:
// batches are formed over all of them first, so that no answer depends on the number of ranks. Not
// collective. Reports progress and what is left out as `options` say. Throws kConfig for an image
// of another size than the model takes, and what the source and `use` throw.
void for_each_batch(ConvertedModel& model, const SampleSource& samples, Communicator& ranks,
                    const DetectOptions& options, const UseImages& use);

}  // namespace retina
