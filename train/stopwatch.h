// The clock of a training's measurements.
#pragma once

#include <chrono>
#include <utility>

namespace retina {

// Steady, from an arbitrary start.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Milliseconds since the previous call, the first time since construction.
class Stopwatch {
 public:
  double lap_ms() {
    const double before = std::exchange(last_, now_seconds());
    return (last_ - before) * 1e3;
  }

 private:
  double last_ = now_seconds();
};

}  // namespace retina
