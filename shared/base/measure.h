// Measuring: the clock, and the median of its readings.
#pragma once

#include <utility>
#include <vector>

namespace retina {

// Returns seconds on a steady clock with an arbitrary start.
double now_seconds();

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
double median(std::vector<double> values);

}  // namespace retina
