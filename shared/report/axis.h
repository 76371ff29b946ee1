// One axis of a curve: its range, where the ticks go, how their numbers read.
#pragma once

#include <string>
#include <vector>

namespace retina {

struct Tick {
  double value = 0;
  std::string label{};
};

struct Axis {
  double low = 0, high = 1;  // what the first and the last pixel stand for
  bool log = false;
  std::vector<Tick> ticks{};

  // 0 at `low`, 1 at `high`.
  double place(double value) const;
};

struct AxisOptions {
  bool log = false;    // decades; values <= 0 have no place
  bool round = false;  // widen the range to whole ticks
  int tick_count = 5;  // about
};

// An axis that shows every value between `low` and `high`. Any finite input is fine; equal ends are
// widened.
Axis make_axis(double low, double high, const AxisOptions& options);

// A number as people write it on an axis or in a legend: "0.25", "1500", "20k", "1e-05".
std::string short_number(double value);

}  // namespace retina
