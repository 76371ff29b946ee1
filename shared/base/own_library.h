// Libraries of this project that a program opens by name, when it needs the libraries behind them.
#pragma once

#include <string>

namespace retina {

struct LibrarySymbol {
  void* address = nullptr;
  std::string problem{};  // the loader's reason if there is no address
};

// Opens `library`, a MODULE of retina_library(), and finds `symbol` in it. The library stays open:
// the libraries behind it may have threads, and destructors that run at exit. Symbols that the
// program also exports resolve to the program's.
LibrarySymbol find_in_library(const char* library, const char* symbol);

// Hint for a library of ours that is not where it was built or installed.
inline constexpr const char* kKeepTogetherHint =
    "keep the folder lib beside the programs' folder, as they were built or installed";

}  // namespace retina
