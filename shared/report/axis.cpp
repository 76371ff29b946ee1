#include "shared/report/axis.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "shared/base/cat.h"

namespace retina {
namespace {

// 1, 2 or 5 times a power of ten, near `size`.
double nice_step(double size) {
  const double power = std::pow(10.0, std::floor(std::log10(size)));
  const double fraction = size / power;
  if (fraction < 1.5) return power;
  if (fraction < 3.5) return 2 * power;
  if (fraction < 7.5) return 5 * power;
  return 10 * power;
}

Axis make_linear(double low, double high, const AxisOptions& options) {
  if (!(high - low > 1e-12 * std::max(std::abs(low), std::abs(high)))) {
    const double room = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= room;
    high += room;
  }
  const double step = nice_step((high - low) / options.tick_count);
  Axis axis{.low = low, .high = high};
  if (options.round) {
    axis.low = std::floor(low / step + 1e-9) * step;
    axis.high = std::ceil(high / step - 1e-9) * step;
  }
  for (double k = std::ceil(axis.low / step - 1e-9); k * step <= axis.high + step * 1e-9; ++k) {
    axis.ticks.push_back({.value = k * step, .label = short_number(k * step)});
  }
  return axis;
}

Axis make_log(double low, double high, const AxisOptions& options) {
  const double first = std::floor(std::log10(low) + 1e-9);
  const double last = std::max(first + 1, std::ceil(std::log10(high) - 1e-9));
  Axis axis{.low = options.round ? std::pow(10.0, first) : low,
            .high = options.round ? std::pow(10.0, last) : std::max(high, low * 1.01),
            .log = true};
  const double stride = std::max(1.0, std::ceil((last - first) / options.tick_count));
  for (double k = first; k <= last; k += stride) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor > 1 && last - first > 2) continue;
      const double value = factor * std::pow(10.0, k);
      if (value < axis.low * 0.999 || value > axis.high * 1.001) continue;
      axis.ticks.push_back({.value = value, .label = short_number(value)});
    }
  }
  return axis;
}

}  // namespace

double Axis::place(double value) const {
  if (log) return std::log(value / low) / std::log(high / low);
  return (value - low) / (high - low);
}

Axis make_axis(double low, double high, const AxisOptions& options) {
  return options.log ? make_log(low, high, options) : make_linear(low, high, options);
}

std::string short_number(double value) {
  const double size = std::abs(value);
  if (!std::isfinite(value)) return "n/a";
  if (size < 1e-12) return "0";
  std::array<char, 40> text{};
  if (size < 1e-3 || size >= 1e9) {
    std::snprintf(text.data(), text.size(), "%.3g", value);
  } else if (size >= 1e6) {
    std::snprintf(text.data(), text.size(), "%.4gM", value / 1e6);
  } else if (size >= 1e4) {
    std::snprintf(text.data(), text.size(), "%.4gk", value / 1e3);
  } else {
    std::snprintf(text.data(), text.size(), "%.4g", value);
  }
  return text.data();
}

}  // namespace retina
