#include "shared/base/stop_signal.h"

#include <unistd.h>

#include <csignal>
#include <initializer_list>

namespace retina {
namespace {

volatile std::sig_atomic_t g_signal = 0;

extern "C" void on_stop_signal(int signal) {
  if (signal == SIGINT && g_signal == SIGINT) ::_exit(128 + SIGINT);
  g_signal = signal;
}

}  // namespace

void install_stop_signals() {
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaction(signal, &action, nullptr);
}

int stop_signal() {
  return g_signal;
}

void set_stop_signal(int signal) {
  g_signal = signal;
}

}  // namespace retina
