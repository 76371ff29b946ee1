// The loop of every prediction, by networks and by converted models, of boxes and of classes.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "shared/data/batch.h"
#include "shared/evaluation/predict/detect.h"

namespace retina {

class Network;  // shared/model/network.h

// Called with each batch and what the model takes of it.
using UseBatch = std::function<void(const Batch& batch, const at::Tensor& images)>;

// Gives `use` this rank's share of the images: batches are formed over all visited images first, so
// that what shares one does not depend on the number of ranks. Not collective. Without gradients.
// Reports progress and skipped images, and stops, as `options` say. Throws what the samples and
// `use` throw.
//
// A network: images [N, 3, H, W], framed as its task has it and normalised, on its device, where a
// GPU prepares them from the stored bytes; f32, or on a GPU what the precision computes in. It is
// in evaluation mode; its mode is restored.
void for_each_batch(Network& network, const PredictionInput& input, const DetectOptions& options,
                    const UseBatch& use);
// A converted model, which resizes and normalises: images u8 [N, 3, H, W], of one size. Throws
// kConfig for an image of another size than the model takes.
void for_each_batch(const ConvertedModel& model, const PredictionInput& input,
                    const DetectOptions& options, const UseBatch& use);

}  // namespace retina
