// Opens the part of retina-eval that needs LibTorch: 0.9 s and 470 MB that scoring does without.
#pragma once

#include "evaluate/options.h"
#include "shared/comm/communicator.h"

namespace retina {

// Calls retina_evaluate_model() of evaluate/model/model_evaluation.h; returns the exit code. Throws
// kUnavailable when the library cannot be opened: it belongs in ../lib, beside the programs.
int evaluate_with_model(const EvalOptions& options, const Cli& cli, Communicator& ranks);

}  // namespace retina
