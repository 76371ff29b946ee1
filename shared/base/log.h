// The log: lines on stderr, "retina-train: warning: ...". Results never go through here; the
// program's main prints them on stdout.
#pragma once

#include <string>

#include "shared/base/cat.h"

namespace retina {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Sets the name that begins each line: the program, with its rank if there are several.
void set_log_name(const std::string& name);
void set_log_level(LogLevel level);
LogLevel log_level();

// Writes one line to stderr in a single write, so that ranks' lines do not mix. Control characters
// in it (it may quote a foreign file) are escaped.
void log_line(LogLevel level, const std::string& text);

// Waits until the reader of `file` (2: the log), if it is a pipe, has read everything, at most
// `limit_s`. For the end of a job: a launcher that sees a rank end drops unread output of the
// others.
void wait_until_read(int file, double limit_s);

template <class... Args>
void log_debug(const Args&... args) {
  if (log_level() <= LogLevel::kDebug) log_line(LogLevel::kDebug, cat(args...));
}
template <class... Args>
void log_info(const Args&... args) {
  if (log_level() <= LogLevel::kInfo) log_line(LogLevel::kInfo, cat(args...));
}
template <class... Args>
void log_warning(const Args&... args) {
  if (log_level() <= LogLevel::kWarning) log_line(LogLevel::kWarning, cat(args...));
}
template <class... Args>
void log_error(const Args&... args) {
  log_line(LogLevel::kError, cat(args...));
}

}  // namespace retina
