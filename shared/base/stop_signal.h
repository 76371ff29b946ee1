// SIGTERM, SIGINT and SIGUSR1 as a flag: the work ends at its next step boundary with a checkpoint.
#pragma once

namespace retina {

// Installs the handlers. A second SIGINT ends the process at once.
void install_stop_signals();

// The signal that asked to stop, or 0.
int stop_signal();

// Sets the flag as if `signal` had arrived (0 clears it); for tests.
void set_stop_signal(int signal);

}  // namespace retina
