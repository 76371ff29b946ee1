// Measuring: the clock, and the median of its readings.
#pragma once

#include <utility>
#include <vector>

namespace retina {

// Steady, from an arbitrary start.
double now_seconds();

// Milliseconds since the previous call, or since construction on the first call.
class Stopwatch {
 public:
  double lap_ms() {
    const double before = std::exchange(last_, now_seconds());
    return (last_ - before) * 1e3;
  }

 private:
  double last_ = now_seconds();
};

// The middle value; of an even count the mean of the middle two; 0 of none.
double median(std::vector<double> values);

}  // namespace retina
