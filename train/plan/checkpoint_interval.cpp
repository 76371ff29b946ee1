#include "train/plan/checkpoint_interval.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "shared/base/error.h"

namespace retina {
namespace {

constexpr std::size_t kQuietSteps = 32;
constexpr std::size_t kCheckpoints = 4;

}  // namespace

double daly_interval_s(double cost_s, double mtbf_s) {
  if (cost_s >= 2 * mtbf_s) return mtbf_s;
  const double ratio = cost_s / (2 * mtbf_s);
  return std::sqrt(2 * cost_s * mtbf_s) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - cost_s;
}

double checkpoint_interval_s(const CheckpointCost& cost, double mtbf_s) {
  return std::max(
      {daly_interval_s(cost.lost_s, mtbf_s), cost.lost_s / kMostCheckpointShare, cost.write_s});
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
  if (result.ec != std::errc() || !(count > 0) || !std::isfinite(count) || unit_s == 0) {
    throw Error(ErrorKind::kUsage, cat("--", option, ": bad value (got \"", text,
                                       "\", want for example 90s, 30min, 4h or 2days)"));
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
  std::vector<double> sorted(quiet_steps_s_.begin(), quiet_steps_s_.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  lost_.back().slower_s += seconds - *middle;
}

void CheckpointMeter::add_stall(double seconds) {
  lost_.push_back({.stall_s = seconds});
  if (lost_.size() > kCheckpoints) lost_.pop_front();
}

double CheckpointMeter::lost_s() const {
  if (lost_.empty()) return guess_s_;
  double sum = 0;
  for (const auto& [stall_s, slower_s] : lost_) sum += stall_s + std::max(0.0, slower_s);
  return sum / static_cast<double>(lost_.size());
}

}  // namespace retina
