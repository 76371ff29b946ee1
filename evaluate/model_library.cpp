#include "evaluate/model_library.h"

#include <dlfcn.h>

#include "shared/base/error.h"

namespace retina {
namespace {

constexpr const char* kLibrary = "libretina_eval_model.so";

// Symbols of ours that the program has, too, are the program's: there is one log, one set of stop
// signals. The library stays open: LibTorch has threads, and destructors that run at the exit.
void* symbol_of_library(const char* name) {
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  void* const symbol = library == nullptr ? nullptr : ::dlsym(library, name);
  if (symbol != nullptr) return symbol;
  const char* const problem = ::dlerror();
  throw Error(ErrorKind::kUnavailable,
              cat("cannot open ", kLibrary, ", which runs models (",
                  problem == nullptr ? "no reason given" : problem, ")"),
              "keep the folder lib beside the programs' folder, as they were built");
}

}  // namespace

int evaluate_with_model(const EvalOptions& options, const Cli& cli, Communicator& ranks) {
  using Evaluate = int (*)(const EvalOptions&, const Cli&, Communicator&);
  return reinterpret_cast<Evaluate>(symbol_of_library("retina_evaluate_model"))(options, cli,
                                                                                ranks);
}

int run_isolated_model(int argc, const char* const* argv) {
  using Main = int (*)(int, const char* const*);
  return reinterpret_cast<Main>(symbol_of_library("retina_isolated_main"))(argc, argv);
}

}  // namespace retina
