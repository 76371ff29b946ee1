// The report page of an evaluation.
#pragma once

#include <string>
#include <vector>

#include "shared/base/cli.h"
#include "shared/evaluation/metrics.h"
#include "shared/report/report.h"

namespace retina {

// What the page is about: "run/checkpoint-08.pt" on "shards/val".
struct EvalSubject {
  std::string model{}, data{};
};

Report make_eval_report(const EvalSubject& subject, const CocoMetrics& metrics,
                        std::vector<Picture> pictures, const std::vector<EffectiveOption>& options);

}  // namespace retina
