#include "shared/base/bus_error.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <ctime>

#include "shared/base/error.h"

namespace retina {
namespace {

// Only plain memory and system calls are safe in the handler, so the line is prepared in advance.
// Two take turns, so that the one in use is not written to.
struct Line {
  std::array<char, 512> text{};
  std::size_t size = 0;
};
std::array<Line, 2> g_lines;
std::atomic<const Line*> g_line{nullptr};
std::atomic_flag g_told;

extern "C" void on_bus_error(int signal, siginfo_t* info, void*) {
  const Line* line = g_line.load();
  if (info->si_code != BUS_ADRERR || line == nullptr) {
    // Sent by kill(), an unaligned address, broken memory: ends as without a handler.
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    return;
  }
  // Often every decode thread is hit at once; the first one reports it and ends the process.
  while (g_told.test_and_set()) ::pause();
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line->text.data(), line->size);
  // A launcher reads it from a pipe, and must have done so before this process ends.
  constexpr timespec kLook{.tv_sec = 0, .tv_nsec = 10'000'000};
  for (int look = 0, unread = 0; look < 50; ++look) {
    if (::ioctl(STDERR_FILENO, FIONREAD, &unread) != 0 || unread == 0) break;
    ::nanosleep(&kLook, nullptr);
  }
  ::_exit(exit_code(ErrorKind::kIo));
}

}  // namespace

void install_bus_error() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

void set_bus_error_name(const std::string& name) {
  Line& line = g_lines[g_line.load() == g_lines.data() ? 1 : 0];
  const std::string text =
      cat(name.substr(0, 256),
          ": error: reading a mapped file failed (the mount is gone, a file was truncated, or "
          "/dev/shm is full); hint: "
          "fix that, then run the same command again\n");
  line.size = std::min(text.size(), line.text.size());
  std::copy_n(text.begin(), line.size, line.text.begin());
  g_line.store(&line);
}

}  // namespace retina
