#include "evaluate/wanted_metric.h"

#include <string>

#include "shared/base/error.h"
#include "shared/base/log.h"

namespace retina {

int exit_code_for(const WantedMetric& wanted, double value, std::int64_t quarantined_count) {
  if (!wanted.least) return 0;
  const std::string lacking =
      quarantined_count == 0
          ? ""
          : cat(" (without ", counted(quarantined_count, "quarantined image"), ")");
  const std::string metric = cat(wanted.name, " ", fixed(value, 4), lacking);
  if (value >= *wanted.least) {
    if (!lacking.empty()) {
      log_warning(metric, " reaches --", wanted.option, " ", *wanted.least);
    }
    return 0;
  }
  log_error(metric, " is below --", wanted.option, " ", *wanted.least);
  return exit_code(ErrorKind::kAnswerNo);
}

}  // namespace retina
