// Opens the part of retina-eval that needs LibTorch: 0.9 s and 470 MB that scoring does without.
#pragma once

#include "evaluate/options.h"
#include "shared/comm/communicator.h"

namespace retina {

// Evaluates on all ranks, in that library; every rank returns rank 0's exit code.
extern "C" int retina_evaluate_model(const EvalOptions& options, const Cli& cli,
                                     Communicator& ranks);

// Opens the library and calls it. Throws kUnavailable when it cannot be opened: it belongs in
// ../lib, beside the programs.
int evaluate_with_model(const EvalOptions& options, const Cli& cli, Communicator& ranks);

}  // namespace retina
