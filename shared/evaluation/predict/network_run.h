// A network over images: what detecting and classifying with one have in common. Its counterpart
// for converted models is converted_run.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "shared/comm/communicator.h"
#include "shared/data/batch.h"
#include "shared/data/image_source.h"
#include "shared/evaluation/predict/detect.h"

namespace retina {

class Network;  // shared/model/network.h

// Called with each batch and its pixels: [N, 3, H, W] of the network's type on its device.
using NetworkInput = std::function<void(const Batch& batch, const at::Tensor& images)>;

// Gives `use` this rank's share of the images as the network takes them, framed as its task has
// it: batches are formed over all visited images first, so that what shares one does not depend
// on the number of ranks. Not collective. Without gradients, the network in evaluation mode; its
// mode is restored. Reports progress and what is left out, and stops, as `options` say. Throws what
// the source throws.
void run_network(Network& network, const ImageSource& source, Communicator& ranks,
                 const DetectOptions& options, const NetworkInput& use);

}  // namespace retina
