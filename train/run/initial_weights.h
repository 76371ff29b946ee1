// --init: loads weights of another training, with the rows of the class layer matched by class
// name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/checkpoint/checkpoint.h"
#include "shared/model/network.h"
#include "shared/shard/manifest.h"

namespace retina {

// The properties of a checkpoint that matter to a training that starts from it.
struct InitialModel {
  ModelConfig model{};
  // True for an import of an image classifier as a detector: its pyramid and heads are
  // placeholders.
  bool backbone_only = false;

  // Returns whether all weights fit a network that does `task`; else only the backbone does, which
  // fits below any task.
  bool gives_all(Task task) const;
};

// Reads the `config` of the checkpoint, which `source` names. Throws Error{kData}.
InitialModel initial_model_of(const std::string& config_json, const std::string& source);

// Throws, before a run begins, for a checkpoint that does not fit the model; reads no tensor.
// Throws as load_checkpoint and load_initial_weights.
void check_initial_weights(const std::string& path, const ModelConfig& model);

// Copies all of `checkpoint`'s weights into `network`; rows of the class layer go to the class of
// the same name, classes that are not in the checkpoint get fresh values. Between a classifier and
// a detector, and from an imported backbone, takes only the backbone. Logs the result. Throws
// Error{kConfig} with `source` as the subject when the two architectures differ; its hint lists the
// options that fit.
void load_initial_weights(Network& network, const Checkpoint& checkpoint,
                          const Categories& categories, std::uint64_t seed,
                          const std::string& source);

}  // namespace retina
