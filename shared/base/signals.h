// Signals of the system. SIGTERM, SIGINT, SIGHUP and SIGUSR1 set a flag: the work ends where it
// next checks it, with what it has saved; before install_stop_signals they end the process, as is
// the system's default. SIGBUS, a page of a mapped file that cannot be read, becomes one line on
// stderr and the exit code of kIo, as for a failed read(); SIGSEGV becomes one line and the exit
// code of kUnavailable if the system gives this process no more memory: oneDNN runs into it when it
// cannot place its code.
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>

namespace retina {

// Effects of a signal besides setting the flag. The lines are logged from the signal's handler, at
// once, whatever the work is doing; "" logs nothing. Each begins with "NAME: stop requested by
// SIGTERM".
struct StopTerms {
  std::string asked{};  // logged when the signal arrives
  // Time that the work may take to end by itself; then `ended` is logged and the process ends with
  // kInterrupted (75), as if killed. Unset: as long as it needs.
  std::optional<double> limit_s{};
  std::string ended{};
};

// Installs the handlers, or changes the terms; an ignored SIGHUP stays ignored (nohup). A second
// SIGINT ends the process at once.
void install_stop_signals(const StopTerms& terms = {});

// Returns the signal that asked to stop, or 0.
int stop_signal();

// Sets the flag as if `signal` had arrived (0 clears it); for tests.
void set_stop_signal(int signal);

// Returns true if a signal, or `stop`, asks to stop. Code that waits for a server or for another
// process checks this at least once a second, and ends by check_stop(): "SUBJECT: is not waited
// for", kInterrupted.
bool is_stopping(const std::stop_token& stop = {});
void check_stop(const std::string& subject, const std::stop_token& stop = {});
// Sleeps for `duration`, or until a stop is requested.
void pause(std::chrono::milliseconds duration, const std::stop_token& stop = {});

// Installs the handlers of SIGBUS and SIGSEGV. Call it before MPI starts: Open MPI leaves a handler
// that it finds alone.
void install_memory_errors();

// Sets the name that begins the lines of all handlers; set_log_name (log.h) calls it.
void set_signal_name(const std::string& name);

}  // namespace retina
