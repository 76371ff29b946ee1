#include "evaluate/model_library.h"

#include "shared/base/error.h"
#include "shared/base/own_library.h"

namespace retina {
namespace {

constexpr const char* kLibrary = "libretina_eval_model.so";

// Finds a symbol of the library. Log and stop signals are the program's own, which exports its
// symbols.
void* symbol_of_library(const char* name) {
  const LibrarySymbol symbol = find_in_library(kLibrary, name);
  if (symbol.address != nullptr) return symbol.address;
  throw Error(ErrorKind::kUnavailable,
              cat("cannot open ", kLibrary, ", which runs models (", symbol.problem, ")"),
              kKeepTogetherHint);
}

}  // namespace

int evaluate_with_model(const EvalOptions& options, const Cli& cli, Communicator& ranks) {
  using Evaluate = decltype(&retina_evaluate_model);
  return reinterpret_cast<Evaluate>(symbol_of_library("retina_evaluate_model"))(options, cli,
                                                                                ranks);
}

}  // namespace retina
