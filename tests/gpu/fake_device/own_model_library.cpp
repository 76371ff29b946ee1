// In the place of evaluate/model_library.cpp: the model's half is linked in.
#include "evaluate/model_library.h"

namespace retina {

int evaluate_with_model(const EvalOptions& options, const Cli& cli, Communicator& ranks) {
  return retina_evaluate_model(options, cli, ranks);
}

}  // namespace retina
