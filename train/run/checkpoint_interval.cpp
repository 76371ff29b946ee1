#include "train/run/checkpoint_interval.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "shared/base/error.h"
#include "shared/base/measure.h"

namespace retina {
namespace {

constexpr std::size_t kQuietSteps = 32;
constexpr std::size_t kCheckpoints = 5;

}  // namespace

double daly_interval_s(double cost_s, double mtbf_s) {
  if (cost_s >= 2 * mtbf_s) return mtbf_s;
  const double ratio = cost_s / (2 * mtbf_s);
  return std::sqrt(2 * cost_s * mtbf_s) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - cost_s;
}

double checkpoint_interval_s(const CheckpointCost& cost, double mtbf_s) {
  const double affordable_s = std::min(cost.lost_s / kMostCheckpointShare, mtbf_s);
  return std::max({daly_interval_s(cost.lost_s, mtbf_s), affordable_s, cost.write_s});
}

double parse_duration_s(const std::string& option, const std::string& text) {
  double count = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::string unit = text.substr(static_cast<std::size_t>(result.ptr - text.data()));
  const double unit_s = unit == "s"                       ? 1
                        : unit == "min"                   ? 60
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

void CheckpointMeter::add_step(double seconds, bool writing) {
  if (!writing) {
    quiet_steps_s_.push_back(seconds);
    if (quiet_steps_s_.size() > kQuietSteps) quiet_steps_s_.pop_front();
    return;
  }
  if (lost_.empty() || quiet_steps_s_.empty()) return;
  const double quiet_s = median({quiet_steps_s_.begin(), quiet_steps_s_.end()});
  // A step of more than twice the time was not held up by the writing alone.
  lost_.back().slower_s += std::min(seconds, 2 * quiet_s) - quiet_s;
}

void CheckpointMeter::add_stall(double seconds) {
  lost_.push_back({.stall_s = seconds});
  if (lost_.size() > kCheckpoints) lost_.pop_front();
}

double CheckpointMeter::lost_s() const {
  if (lost_.empty()) return guess_s_;
  std::vector<double> costs;
  for (const auto& [stall_s, slower_s] : lost_) costs.push_back(stall_s + std::max(0.0, slower_s));
  return median(std::move(costs));
}

}  // namespace retina
