// SIGTERM, SIGINT, SIGHUP and SIGUSR1 as a flag: the work ends where it next looks at it, with what
// it has saved. Before install_stop_signals they end the process, as the system has it.
#pragma once

#include <optional>
#include <string>

namespace retina {

// What a signal does besides setting the flag. The lines are logged from the signal's handler, at
// once, whatever the work is doing; "" logs nothing. Of each, "NAME: stop requested by SIGTERM"
// is the begin.
struct StopTerms {
  std::string asked{};  // when the signal arrives
  // How long the work may take to end by itself; then `ended` is logged and the process ends with
  // kInterrupted (75), as if killed. None: as long as it needs.
  std::optional<double> limit_s{};
  std::string ended{};
};

// Installs the handlers, or changes the terms; SIGHUP stays ignored where it came ignored (nohup).
// A second SIGINT ends the process at once.
void install_stop_signals(const StopTerms& terms = {});

// The signal that asked to stop, or 0.
int stop_signal();

// Sets the flag as if `signal` had arrived (0 clears it); for tests.
void set_stop_signal(int signal);

// What the lines begin with; set_log_name (log.h) sets it.
void set_stop_signal_name(const std::string& name);

}  // namespace retina
