#include "train/schedule/schedule.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include "shared/base/error.h"

namespace retina {

double learning_rate(const ScheduleOptions& options, std::int64_t step) {
  double rate = options.base_lr;
  if (step < options.warmup_steps) {
    const double progress = static_cast<double>(step) / static_cast<double>(options.warmup_steps);
    rate *= options.warmup_factor + (1 - options.warmup_factor) * progress;
  }
  if (options.kind == ScheduleKind::kStep) {
    for (const std::int64_t drop : options.drop_steps) {
      if (step >= drop) rate *= options.drop_factor;
    }
  } else if (options.kind == ScheduleKind::kCosine && options.total_steps > 0) {
    const double progress =
        std::min(1.0, static_cast<double>(step) / static_cast<double>(options.total_steps));
    rate *= 0.5 * (1 + std::cos(std::numbers::pi * progress));
  } else if (options.kind == ScheduleKind::kInverseTime) {
    rate /= 1 + options.decay * static_cast<double>(step);
  }
  return rate;
}

Span parse_span(const std::string& option, const std::string& text) {
  Span span;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), span.count);
  const std::string unit = text.substr(static_cast<std::size_t>(result.ptr - text.data()));
  const bool good =
      result.ec == std::errc() && span.count > 0 && span.count <= static_cast<double>(kMostInSpan);
  if (good && (unit == "epoch" || unit == "epochs")) {
    span.unit = Span::Unit::kEpochs;
  } else if (good && (unit == "step" || unit == "steps")) {
    span.unit = Span::Unit::kSteps;
  } else if (good && unit == "min") {
    span.unit = Span::Unit::kMinutes;
  } else {
    throw Error(ErrorKind::kUsage,
                cat("--", option, ": bad value (got \"", text,
                    "\", want for example 1epoch, 500steps or 10min, up to ", kMostInSpan, ")"));
  }
  return span;
}

}  // namespace retina
