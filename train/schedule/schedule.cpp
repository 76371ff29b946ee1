#include "train/schedule/schedule.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <optional>

#include "shared/base/error.h"
#include "shared/base/exact_number.h"

namespace retina {
namespace {

// Parses "16/26"; returns nothing for anything else.
std::optional<Span> parse_share(const std::string& text) {
  constexpr std::int64_t kMostWhole = 1'000'000;
  const auto pair = exact_pair<std::int64_t>(text, '/');
  if (!pair || pair->first < 1 || pair->first >= pair->second || pair->second > kMostWhole) {
    return std::nullopt;
  }
  return Span{.unit = Span::Unit::kRun, .part = pair->first, .whole = pair->second};
}

}  // namespace

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

std::int64_t default_warmup_steps(std::int64_t total_steps) {
  constexpr std::int64_t kMost = 1000;
  return std::min(kMost, total_steps / 10);
}

std::int64_t to_steps(const Span& span, const RunLength& length) {
  if (span.unit == Span::Unit::kSteps) return static_cast<std::int64_t>(span.count);
  if (span.unit == Span::Unit::kRun) {  // total_steps * part / whole, which would not fit 64 bits
    return length.total_steps / span.whole * span.part +
           length.total_steps % span.whole * span.part / span.whole;
  }
  return std::llround(span.count * static_cast<double>(length.steps_per_epoch));
}

std::vector<std::int64_t> drop_steps(const std::vector<Span>& spans, const RunLength& length,
                                     std::int64_t warmup_steps) {
  std::vector<std::int64_t> drops;
  for (const Span& span : spans) {
    const std::int64_t step = to_steps(span, length);
    const std::int64_t before = drops.empty() ? warmup_steps : drops.back();
    if (span.unit != Span::Unit::kRun || step > before) drops.push_back(step);
  }
  return drops;
}

Span parse_span(const std::string& option, const std::string& text) {
  if (const std::optional<Span> share = parse_share(text)) return *share;
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
                cat(option, ": bad value (got \"", text,
                    "\", want for example 1epoch, 500steps or 10min, up to ", kMostInSpan, ")"));
  }
  return span;
}

double parse_duration_s(const std::string& option, const std::string& text) {
  double count = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::string unit = text.substr(static_cast<std::size_t>(result.ptr - text.data()));
  const double unit_s = unit == "s"                       ? 1
                        : unit == "min" || unit == "m"    ? 60
                        : unit == "h"                     ? 3600
                        : unit == "day" || unit == "days" ? 86400
                                                          : 0;
  constexpr double kMostDays = 36500;
  const bool in_range = count > 0 && count * unit_s <= kMostDays * 86400;
  if (result.ec != std::errc() || unit_s == 0 || !in_range) {
    throw Error(ErrorKind::kUsage,
                cat(option, ": bad value (got \"", text,
                    "\", want for example 90s, 30min, 4h or 2days, up to 36500days)"));
  }
  return count * unit_s;
}

}  // namespace retina
