// --init: weights of another training, with the rows of the class layer matched by class name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/checkpoint/checkpoint.h"
#include "shared/model/network.h"
#include "shared/shard/manifest.h"

namespace retina {

// Refuses a checkpoint that does not fit the model, before a run begins; reads no tensor. Throws as
// load_checkpoint and load_initial_weights.
void check_initial_weights(const std::string& path, const ModelConfig& model);

// Whether load_initial_weights would take a detector as a whole, not only its ResNet. Throws as
// read_checkpoint_header.
bool brings_detector(const std::string& path);

// Copies all of `checkpoint`'s weights into `network`; rows of the class layer go to the class of
// the same name, classes that are not in the checkpoint get fresh values. Between a classifier and
// a detector, and of an imported backbone, only the ResNet is taken. Logs what was done. Throws
// Error{kConfig} with `source` as the subject when the two architectures differ; its hint lists the
// options to give.
void load_initial_weights(Network& network, const Checkpoint& checkpoint,
                          const Categories& categories, std::uint64_t seed,
                          const std::string& source);

}  // namespace retina
