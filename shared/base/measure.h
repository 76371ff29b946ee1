// Measuring: the clock, and the median of its readings.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace retina {

// Returns seconds on a steady clock with an arbitrary start.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Measures the milliseconds since the previous call, or since construction on the first call.
class Stopwatch {
 public:
  double lap_ms() {
    const double before = std::exchange(last_, now_seconds());
    return (last_ - before) * 1e3;
  }

 private:
  double last_ = now_seconds();
};

// Returns the middle value; of an even count the mean of the middle two; 0 for none.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const std::size_t middle = values.size() / 2;
  std::sort(values.begin(), values.end());
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace retina
