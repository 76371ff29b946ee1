// The part of retina-eval that runs a model and needs LibTorch. It is linked into a library that is
// opened only when a model is given (evaluate/model_library.h), so that scoring starts at once.
#pragma once

#include "evaluate/options.h"
#include "shared/comm/communicator.h"

namespace retina {

// Evaluates on all ranks; every rank returns rank 0's exit code.
extern "C" int retina_evaluate_model(const EvalOptions& options, const Cli& cli,
                                     Communicator& ranks);

}  // namespace retina
