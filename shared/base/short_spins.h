// For main.cpp of programs with OpenMP alone. Its threads wait for each other by spinning, 3 ms in
// libgomp, which costs nothing on idle cores and most of the time where other programs want them.
// A tenth of a millisecond is as fast on the one and twice as fast or more on the other; where as
// many threads as there are processors want to run when the process begins, not to spin is faster
// still (docs/measurements.md). libgomp reads its settings when it is loaded, so the process starts
// itself again with them, before any library is initialised. Whoever sets one of the variables
// decides.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <climits>
#include <cstddef>
#include <cstdio>
#include <cstring>

namespace retina {

// Returns how many threads of the machine want to run, this one included; 0 if that is unknown.
inline long running_threads() {
  char text[64] = {};  // "0.20 0.18 0.12 3/512 4711": three running of 512
  const int file = ::open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  long count = 0;
  if (::read(file, text, sizeof text - 1) > 0) std::sscanf(text, "%*s %*s %*s %ld", &count);
  ::close(file);
  return count;
}

// Returns true if other programs keep all processors busy for a few milliseconds.
inline bool is_machine_busy() {
  constexpr int kSamples = 4, kPauseUs = 1000;
  for (int i = 0; i < kSamples; ++i) {
    if (running_threads() <= ::sysconf(_SC_NPROCESSORS_ONLN)) return false;
    ::usleep(kPauseUs);
  }
  return true;
}

// Runs before memory can be allocated: calls nothing that needs it. Returns where there is nothing
// to do, or where the process cannot be started again.
inline void shorten_spins(int, char** arguments, char** environment) {
  constexpr std::size_t kMostVariables = 8192;
  static char limit[] = "GOMP_SPINCOUNT=10000";
  static char passive[] = "OMP_WAIT_POLICY=passive";
  static char* longer[kMostVariables + 2];
  std::size_t count = 0;
  for (; environment[count] != nullptr; ++count) {
    if (count == kMostVariables || std::strncmp(environment[count], limit, 15) == 0 ||
        std::strncmp(environment[count], passive, 16) == 0) {
      return;
    }
    longer[count] = environment[count];
  }
  longer[count] = is_machine_busy() ? passive : limit;
  static char own[PATH_MAX];
  if (::readlink("/proc/self/exe", own, sizeof(own) - 1) > 0) ::execve(own, arguments, longer);
}

[[gnu::section(".preinit_array"),
  gnu::used]] static void (*const kBeforeOpenMp)(int, char**, char**) = shorten_spins;

}  // namespace retina
