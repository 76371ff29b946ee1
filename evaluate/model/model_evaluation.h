// retina-eval with a model: the half that needs LibTorch. It is linked into a library that is
// opened only when a model is given (evaluate/model_library.h), so that scoring starts at once.
#pragma once

#include "evaluate/options.h"
#include "shared/comm/communicator.h"

namespace retina {

// All ranks enter; rank 0's exit code is everybody's.
extern "C" int retina_evaluate_model(const EvalOptions& options, const Cli& cli,
                                     Communicator& ranks);

}  // namespace retina
