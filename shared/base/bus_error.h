// A page of a mapped file that cannot be read is a SIGBUS: here it becomes one line on stderr and
// the exit code of kIo, as for a failed read().
#pragma once

#include <string>

namespace retina {

// Installs the handler. Before MPI starts: Open MPI leaves a handler that it finds alone.
void install_bus_error();

// What the line begins with; set_log_name (log.h) calls it.
void set_bus_error_name(const std::string& name);

}  // namespace retina
