// Libraries of this project that a program opens by name, when it needs what they link.
#pragma once

#include <string>

namespace retina {

struct LibrarySymbol {
  void* address = nullptr;
  std::string problem{};  // the loader's reason where there is no address
};

// Opens `library`, a MODULE of retina_library(), and finds `symbol` in it. The library stays open:
// what it links may have threads, and destructors that run at the exit. Symbols that the program
// exports, too, are the program's.
LibrarySymbol find_in_library(const char* library, const char* symbol);

// The hint for a library of ours that is not where it was built or installed.
inline constexpr const char* kKeepTogetherHint =
    "keep the folder lib beside the programs' folder, as they were built or installed";

}  // namespace retina
