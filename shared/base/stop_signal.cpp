#include "shared/base/stop_signal.h"

#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <initializer_list>
#include <mutex>
#include <string_view>

#include "shared/base/error.h"

namespace retina {
namespace {

volatile std::sig_atomic_t g_signal = 0;

// Only plain memory and system calls are safe in a handler, so its lines are prepared in advance.
struct Text {
  std::array<char, 512> bytes{};
  std::size_t size = 0;

  void add(std::string_view more) {
    const std::size_t count = std::min(more.size(), bytes.size() - size);
    std::copy_n(more.begin(), count, bytes.begin() + static_cast<std::ptrdiff_t>(size));
    size += count;
  }
};
struct Lines {
  Text name, asked, ended;
  double limit_s = -1;  // below 0: none
};
// Two take turns, so that the one in use is not written to.
std::array<Lines, 2> g_lines;
std::atomic<const Lines*> g_current{g_lines.data()};
std::mutex g_mutex;  // of those who prepare

const char* signal_name(int signal) {
  switch (signal) {
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT";
    case SIGHUP:
      return "SIGHUP";
    default:
      return "SIGUSR1";
  }
}

void write_line(const Lines& lines, const Text& end) {
  if (end.size == 0) return;
  Text line;
  line.add({lines.name.bytes.data(), lines.name.size});
  line.add(": stop requested by ");
  line.add(signal_name(g_signal));
  line.add({end.bytes.data(), std::min(end.size, line.bytes.size() - line.size - 1)});
  line.add("\n");
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.bytes.data(), line.size);
}

[[noreturn]] void end_now(const Lines& lines) {
  // A log that nobody reads must not keep the process.
  std::signal(SIGALRM, SIG_DFL);
  sigset_t alarms;
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  ::sigprocmask(SIG_UNBLOCK, &alarms, nullptr);
  ::alarm(1);
  write_line(lines, lines.ended);
  ::_exit(exit_code(ErrorKind::kInterrupted));
}

extern "C" void on_stop_limit(int) {
  end_now(*g_current.load());
}

extern "C" void on_stop_signal(int signal) {
  if (signal == SIGINT && g_signal == SIGINT) ::_exit(128 + SIGINT);
  const bool is_first = g_signal == 0;
  g_signal = signal;
  if (!is_first) return;
  const Lines& lines = *g_current.load();
  if (lines.limit_s == 0) end_now(lines);
  if (lines.limit_s > 0) {
    const auto whole = static_cast<time_t>(lines.limit_s);
    itimerval limit{};
    limit.it_value.tv_sec = whole;
    limit.it_value.tv_usec =
        static_cast<suseconds_t>((lines.limit_s - static_cast<double>(whole)) * 1e6);
    ::setitimer(ITIMER_REAL, &limit, nullptr);
  }
  write_line(lines, lines.asked);
}

template <class Change>
void change_lines(const Change& change) {
  const std::lock_guard lock(g_mutex);
  const Lines* current = g_current.load();
  Lines& next = g_lines[current == g_lines.data() ? 1 : 0];
  next = *current;
  change(next);
  g_current.store(&next);
}

void set_text(Text& text, const std::string& to) {
  text.size = 0;
  text.add(to);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

void install_stop_signals(const StopTerms& terms) {
  change_lines([&](Lines& lines) {
    set_text(lines.asked, terms.asked);
    set_text(lines.ended, terms.ended);
    lines.limit_s = terms.limit_s.value_or(-1);
  });
  if (terms.limit_s) handle(SIGALRM, on_stop_limit);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) handle(signal, on_stop_signal);
  if (!is_ignored(SIGHUP)) handle(SIGHUP, on_stop_signal);
}

int stop_signal() {
  return g_signal;
}

void set_stop_signal(int signal) {
  g_signal = signal;
}

void set_stop_signal_name(const std::string& name) {
  change_lines([&](Lines& lines) { set_text(lines.name, name.substr(0, 256)); });
}

}  // namespace retina
