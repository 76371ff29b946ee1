// For main.cpp alone: if the working folder has been removed, oneMKL ends the process while it is
// loaded, Open MPI when it starts, and the standard library throws. So the process leaves that
// folder before any library is initialised. In /proc nothing can be created, and a relative path
// leads to nothing of the user's.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

namespace retina {

// Runs before memory can be allocated: only system calls.
inline void leave_removed_folder(int, char** arguments, char**) {
  char folder[PATH_MAX];
  if (::getcwd(folder, sizeof(folder)) != nullptr || errno != ENOENT || ::chdir("/proc") != 0)
    return;
  const char* const slash = std::strrchr(arguments[0], '/');
  ::dprintf(STDERR_FILENO,
            "%s: warning: the working folder has been removed: only absolute paths lead anywhere\n",
            slash != nullptr ? slash + 1 : arguments[0]);
}

[[gnu::section(".preinit_array"),
  gnu::used]] static void (*const kBeforeLibraries)(int, char**, char**) = leave_removed_folder;

}  // namespace retina
