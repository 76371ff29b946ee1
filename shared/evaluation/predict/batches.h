// The loop of every prediction, by networks and by converted models, of boxes and of classes.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "shared/data/batch.h"
#include "shared/evaluation/predict/detect.h"

namespace retina {

class Network;  // shared/model/network.h

// Receives each batch and its images in the form that the model takes.
using UseBatch = std::function<void(const Batch& batch, const at::Tensor& images)>;

// Passes this rank's share of the images to `use`: batches are formed over all visited images
// first, so that their composition does not depend on the number of ranks. Not collective. Without
// gradients. Reports progress and skipped images, and stops, as `options` say. Throws what the
// samples and `use` throw.
//
// For a network: images [N, 3, H, W], framed for its task and normalised, on its device, where a
// GPU prepares them from the stored bytes; f32, or on a GPU the type that the precision computes
// in. It runs in evaluation mode; its mode is restored.
void for_each_batch(Network& network, const PredictionInput& input, const DetectOptions& options,
                    const UseBatch& use);
// Does the same for a converted model, which resizes and normalises: images u8 [N, 3, H, W], of one
// size. Throws kConfig for an image of another size than the model takes.
void for_each_batch(const ConvertedModel& model, const PredictionInput& input,
                    const DetectOptions& options, const UseBatch& use);

}  // namespace retina
