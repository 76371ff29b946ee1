// A checkpoint of an untrained model whose norms and scores are not trivial, for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/checkpoint/checkpoint.h"
#include "shared/model/config.h"

namespace retina {

// ResNet-18, 3 classes, small images.
ModelConfig small_config();
// The same as a classifier; "resnet18" or another, "cifar-cnn".
ModelConfig small_classifier_config(const std::string& backbone = "resnet18");

// Weights drawn from `seed`; batch and group norms get statistics and affine values away from
// identity, the class layer gives scores all over (0, 1). `head_spread` 0 makes every score 0.01
// (of a classifier: every class as probable). Drawn once a process; every call gets tensors of its
// own.
Checkpoint random_checkpoint(const ModelConfig& config, std::uint64_t seed,
                             double head_spread = 1.0);

// The bytes of a .pth file with the tensors as torch.save writes a state dict, in the zip or in the
// `legacy` container.
std::string pth_of(const NamedTensors& tensors, bool legacy = false);

}  // namespace retina
