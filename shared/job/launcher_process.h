// The process that started this rank: mpirun, or Open MPI's daemon on another node.
#pragma once

#include <string>

#include <sys/types.h>

namespace retina {

// The nearest ancestor that is a launcher of Open MPI; 0 without one. `proc` is for tests.
pid_t launcher_process(const std::string& proc = "/proc");

}  // namespace retina
