// Works in processes of this machine, for --parts.
#pragma once

#include <functional>

namespace retina {

// Runs work(0), ..., work(count - 1), each in a copy of this process, which must have no other
// thread. An error ends its process as it would end the program (program.h), and the others by
// SIGTERM. So does a stop signal of this process; its death kills them. Throws an error of the
// first failure's kind, kInterrupted at a stop, kUnavailable when a process cannot be started.
void run_processes(int count, const std::function<void(int)>& work);

}  // namespace retina
