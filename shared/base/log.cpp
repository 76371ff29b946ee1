#include "shared/base/log.h"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "shared/base/printable.h"
#include "shared/base/signals.h"

namespace retina {
namespace {

// Limit of a line, so that no text of a file floods the log, however it came into a message.
constexpr std::size_t kLineCharacters = 4000;

std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::mutex g_mutex;

std::string& log_name() {
  static std::string name = "retina";
  return name;
}

constexpr const char* kPrefixes[] = {"debug: ", "", "warning: ", "error: "};  // indexed by LogLevel

}  // namespace

void set_log_name(const std::string& name) {
  const std::lock_guard lock(g_mutex);
  log_name() = name;
  set_signal_name(name);
}

void set_log_level(LogLevel level) {
  g_level = level;
}

LogLevel log_level() {
  return g_level;
}

void log_line(LogLevel level, const std::string& text) {
  const std::lock_guard lock(g_mutex);
  const std::string line = cat(log_name(), ": ", kPrefixes[static_cast<int>(level)],
                               escaped(text, kLineCharacters), "\n");
  // A log that cannot be written must not end the work it reports on.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

void wait_until_read(int file, double limit_s) {
  struct stat info {};
  if (::fstat(file, &info) != 0 || !S_ISFIFO(info.st_mode)) return;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit_s);
  int unread = 0;
  while (::ioctl(file, FIONREAD, &unread) == 0 && unread > 0 &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace retina
