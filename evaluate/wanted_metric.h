// Whether a metric reaches what the command line asks for: --min-ap, --min-top1.
#pragma once

#include <cstdint>
#include <optional>

namespace retina {

struct WantedMetric {
  const char* name = "AP";
  const char* option = "min-ap";
  std::optional<double> least{};
};

// The exit code: 0, or 1 when `value` does not reach it, with the reason on the log. A figure that
// leaves out images of the set is marked either way.
int exit_code_for(const WantedMetric& wanted, double value, std::int64_t quarantined_count);

}  // namespace retina
