#include "shared/base/own_library.h"

#include <dlfcn.h>

namespace retina {

LibrarySymbol find_in_library(const char* library, const char* symbol) {
  void* const opened = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  void* const address = opened == nullptr ? nullptr : ::dlsym(opened, symbol);
  if (address != nullptr) return {.address = address};
  const char* const problem = ::dlerror();
  return {.problem = problem == nullptr ? "no reason given" : problem};
}

}  // namespace retina
