#include "shared/base/signals.h"

#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <ctime>
#include <initializer_list>
#include <mutex>
#include <string_view>
#include <thread>

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
  std::string_view view() const { return {bytes.data(), size}; }
  void write() const {
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, bytes.data(), size);
  }
};
struct Lines {
  Text name, asked, ended, bus_error, no_memory;
  double limit_s = -1;  // below 0: no limit
};
// Two take turns, so that the one in use is not written to.
std::array<Lines, 2> g_lines;
std::atomic<const Lines*> g_current{g_lines.data()};
std::mutex g_mutex;  // guards preparing them
std::atomic_flag g_is_ending;

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
  line.add(lines.name.view());
  line.add(": stop requested by ");
  line.add(signal_name(g_signal));
  line.add(end.view().substr(0, line.bytes.size() - line.size - 1));
  line.add("\n");
  line.write();
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

// Ends the process as the signal would without a handler.
void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// Reports and ends the process. Often every thread is hit at once; only the first one reports.
[[noreturn]] void end_with(const Text& text, ErrorKind kind) {
  while (g_is_ending.test_and_set()) ::pause();
  text.write();
  // A launcher reads the log from a pipe, and must have read it before this process ends.
  constexpr timespec kLook{.tv_sec = 0, .tv_nsec = 10'000'000};
  for (int look = 0, unread = 0; look < 50; ++look) {
    if (::ioctl(STDERR_FILENO, FIONREAD, &unread) != 0 || unread == 0) break;
    ::nanosleep(&kLook, nullptr);
  }
  ::_exit(exit_code(kind));
}

extern "C" void on_bus_error(int signal, siginfo_t* info, void*) {
  const Lines& lines = *g_current.load();
  // Other causes keep their default end: a signal from kill(), an unaligned address, broken memory.
  if (info->si_code != BUS_ADRERR || lines.bus_error.size == 0) return end_by(signal);
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
  if (was_sent || lines.no_memory.size == 0 || has_memory()) return end_by(signal);
  end_with(lines.no_memory, ErrorKind::kUnavailable);
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
  const auto install = [](int signal, void (*handler)(int, siginfo_t*, void*)) {
    struct sigaction action {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  };
  install(SIGBUS, on_bus_error);
  // A sanitizer has handlers of its own.
  struct sigaction before {};
  if (::sigaction(SIGSEGV, nullptr, &before) == 0 && before.sa_handler == SIG_DFL) {
    install(SIGSEGV, on_bad_access);
  }
}

void set_signal_name(const std::string& name) {
  change_lines([&](Lines& lines) {
    set_text(lines.name, name.substr(0, 256));
    set_text(lines.bus_error,
             cat(lines.name.view(),
                 ": error: reading a mapped file failed (the mount is gone, a file was truncated, "
                 "or /dev/shm is full); hint: fix that, then run the same command again\n"));
    set_text(lines.no_memory,
             cat(lines.name.view(),
                 ": error: out of memory (a library went on without it); hint: give this process "
                 "more (ulimit -v, -d), or let it work on less at a time\n"));
  });
}

}  // namespace retina
