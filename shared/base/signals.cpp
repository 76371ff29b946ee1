#include "shared/base/signals.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>

#include "shared/base/descriptor.h"
#include "shared/base/error.h"
#include "shared/base/log.h"

namespace retina {
namespace {

volatile std::sig_atomic_t g_signal = 0;

// A handler may only read plain memory and make system calls, so its texts are prepared.
struct Lines {
  std::string name, asked, ended, bus_error, no_memory;
  double limit_s = -1;  // below 0: no limit
};
const Lines kNoLines;
std::atomic<const Lines*> g_current{&kNoLines};
std::mutex g_mutex;  // guards preparing them
std::atomic_flag g_is_ending;

void write_line(const Lines& lines, const std::string& end) {
  if (end.empty()) return;
  const char* const signal = ::sigabbrev_np(g_signal);
  std::array<iovec, 5> parts{};
  std::size_t count = 0;
  for (const std::string_view part :
       {std::string_view(lines.name), std::string_view(": stop requested by SIG"),
        std::string_view(signal == nullptr ? "ALRM" : signal), std::string_view(end),
        std::string_view("\n")}) {
    parts[count++] = {const_cast<char*>(part.data()), part.size()};
  }
  [[maybe_unused]] const auto written = ::writev(STDERR_FILENO, parts.data(), parts.size());
}

[[noreturn]] void end_now(const Lines& lines) {
  // A log without a reader must not keep the process alive.
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
    itimerval limit{};
    limit.it_value.tv_sec = static_cast<time_t>(lines.limit_s);
    limit.it_value.tv_usec = static_cast<suseconds_t>(std::fmod(lines.limit_s, 1) * 1e6);
    ::setitimer(ITIMER_REAL, &limit, nullptr);
  }
  write_line(lines, lines.asked);
}

// Replaces the texts by changed ones; the old ones stay, since a handler may be reading them.
template <class Change>
void change_lines(const Change& change) {
  static auto& all = *new std::deque<Lines>;  // never destroyed: a handler may run until the end
  const std::lock_guard lock(g_mutex);
  change(all.emplace_back(*g_current.load()));
  g_current.store(&all.back());
}

// Ends the process as the signal would without a handler.
void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// Reports and ends the process. Often every thread is hit at once; only the first one reports.
[[noreturn]] void end_with(const std::string& text, ErrorKind kind) {
  while (g_is_ending.test_and_set()) ::pause();
  write_all(STDERR_FILENO, text);
  wait_until_read(STDERR_FILENO, 0.5);
  ::_exit(exit_code(kind));
}

extern "C" void on_bus_error(int signal, siginfo_t* info, void*) {
  const Lines& lines = *g_current.load();
  // Other causes keep their default end: a signal from kill(), an unaligned address, broken memory.
  if (info->si_code != BUS_ADRERR || lines.bus_error.empty()) return end_by(signal);
  end_with(lines.bus_error, ErrorKind::kIo);
}

// Returns true if the system still gives this process a little memory.
bool has_memory() {
  constexpr std::size_t kLittle = std::size_t{2} << 20;
  void* const memory =
      ::mmap(nullptr, kLittle, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  ::munmap(memory, kLittle);
  return true;
}

extern "C" void on_bad_access(int signal, siginfo_t* info, void*) {
  const Lines& lines = *g_current.load();
  const bool was_sent = info->si_code <= 0;
  if (was_sent || lines.no_memory.empty() || has_memory()) return end_by(signal);
  end_with(lines.no_memory, ErrorKind::kUnavailable);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(signal, &action, nullptr);
}

void handle_error(int signal, void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(signal, &action, nullptr);
}

bool has_handler(int signal, void (*handler)(int)) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == handler;
}

}  // namespace

void install_stop_signals(const StopTerms& terms) {
  change_lines([&](Lines& lines) {
    lines.asked = terms.asked;
    lines.ended = terms.ended;
    lines.limit_s = terms.limit_s.value_or(-1);
  });
  if (terms.limit_s) handle(SIGALRM, on_stop_limit);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) handle(signal, on_stop_signal);
  if (!has_handler(SIGHUP, SIG_IGN)) handle(SIGHUP, on_stop_signal);
}

int stop_signal() {
  return g_signal;
}

void set_stop_signal(int signal) {
  g_signal = signal;
}

bool is_stopping(const std::stop_token& stop) {
  return g_signal != 0 || stop.stop_requested();
}

void check_stop(const std::string& subject, const std::stop_token& stop) {
  if (!is_stopping(stop)) return;
  throw Error(ErrorKind::kInterrupted, cat(subject, ": is not waited for, a stop was requested"),
              "run the same command again");
}

void pause(std::chrono::milliseconds duration, const std::stop_token& stop) {
  constexpr std::chrono::milliseconds kLook{50};
  for (; duration.count() > 0 && !is_stopping(stop); duration -= kLook) {
    std::this_thread::sleep_for(std::min(duration, kLook));
  }
}

void install_memory_errors() {
  handle_error(SIGBUS, on_bus_error);
  // A sanitizer has handlers of its own.
  if (has_handler(SIGSEGV, SIG_DFL)) handle_error(SIGSEGV, on_bad_access);
}

void set_signal_name(const std::string& name) {
  change_lines([&](Lines& lines) {
    lines.name = name;
    lines.bus_error =
        cat(name,
            ": error: reading a mapped file failed (the mount is gone, a file was truncated, or "
            "/dev/shm is full); hint: fix that, then run the same command again\n");
    lines.no_memory = cat(name,
                          ": error: out of memory (a library went on without it); hint: give this "
                          "process more (ulimit -v, -d), or let it work on less at a time\n");
  });
}

}  // namespace retina
