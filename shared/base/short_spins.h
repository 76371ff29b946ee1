// For main.cpp of programs with OpenMP alone. Its threads wait for each other by spinning, 3 ms in
// libgomp, which costs nothing on idle cores and most of the time where other programs want them.
// A tenth of a millisecond is as fast on the one and twice as fast or more on the other
// (docs/measurements.md). libgomp reads its limit when it is loaded, so the process starts itself
// again with it, before any library is initialised. Whoever sets one of the variables decides.
#pragma once

#include <unistd.h>

#include <climits>
#include <cstddef>
#include <cstring>

namespace retina {

// Runs before memory can be allocated: only system calls. Returns where there is nothing to do, or
// where the process cannot be started again.
inline void shorten_spins(int, char** arguments, char** environment) {
  constexpr std::size_t kMostVariables = 8192;
  static char limit[] = "GOMP_SPINCOUNT=10000";
  static char* longer[kMostVariables + 2];
  std::size_t count = 0;
  for (; environment[count] != nullptr; ++count) {
    if (count == kMostVariables || std::strncmp(environment[count], limit, 15) == 0 ||
        std::strncmp(environment[count], "OMP_WAIT_POLICY=", 16) == 0) {
      return;
    }
    longer[count] = environment[count];
  }
  longer[count] = limit;
  static char own[PATH_MAX];
  if (::readlink("/proc/self/exe", own, sizeof(own) - 1) > 0) ::execve(own, arguments, longer);
}

[[gnu::section(".preinit_array"),
  gnu::used]] static void (*const kBeforeOpenMp)(int, char**, char**) = shorten_spins;

}  // namespace retina
