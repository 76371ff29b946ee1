#include "shared/base/progress.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "shared/base/log.h"

namespace retina {
namespace {

constexpr std::chrono::milliseconds kTerminalPeriod{200};
constexpr std::chrono::seconds kPlainPeriod{10};

}  // namespace

Progress::Progress(std::string label, std::int64_t total, std::string unit)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      total_(total),
      last_draw_(Clock::now()),
      terminal_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  clear();
}

void Progress::update(std::int64_t done, const std::string& detail) {
  if (first_ < 0) {
    first_ = done;
    start_ = Clock::now();
  }
  done_ = done;
  detail_ = detail;
  const auto period = terminal_ ? std::chrono::nanoseconds(kTerminalPeriod)
                                : std::chrono::nanoseconds(kPlainPeriod);
  if (Clock::now() - last_draw_ >= period) draw(detail);
}

void Progress::finish() {
  if (std::exchange(finished_, true)) return;
  if (terminal_ || done_ != drawn_done_) draw(detail_);
  if (terminal_ && drawn_) std::cerr << '\n' << std::flush;
  drawn_ = false;
}

void Progress::clear() {
  if (terminal_ && drawn_) std::cerr << "\r\033[K" << std::flush;
  drawn_ = false;
}

std::string Progress::line(const std::string& detail) const {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const double rate =
      static_cast<double>(done_ - std::max<std::int64_t>(first_, 0)) / std::max(seconds, 1e-9);
  std::string text = cat(label_, " ", done_);
  if (total_ > 0) text += cat("/", total_);
  text += cat(" ", unit_);
  if (seconds > 0.5 && rate > 0) {
    text += cat(", ", fixed(rate, rate < 10 ? 2 : 0), "/s");
    if (total_ > done_) {
      text += cat(", ", human_seconds(static_cast<double>(total_ - done_) / rate), " left");
    }
  }
  if (!detail.empty()) text += ", " + detail;
  return text;
}

void Progress::draw(const std::string& detail) {
  last_draw_ = Clock::now();
  drawn_done_ = done_;
  if (log_level() > LogLevel::kInfo) return;
  if (terminal_) {
    std::cerr << "\r\033[K" << line(detail) << std::flush;
    drawn_ = true;
  } else {
    log_info(line(detail));
  }
}

}  // namespace retina
