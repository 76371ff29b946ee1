// What retina-eval makes of detections, wherever they come from: files, the summary on standard
// output, the exit code.
#pragma once

#include <cstdint>
#include <string>

#include "evaluate/options.h"
#include "evaluate/output_folder.h"
#include "shared/evaluation/metrics.h"
#include "shared/report/report.h"

namespace retina {

// A JSON string literal: how inputs stand in an EvalIdentity.
std::string quoted(const std::string& text);

// Says that `folder` holds this evaluation already. Returns the exit code.
int already_done(const EvalOptions& options, const OutputFolder& folder, double ap,
                 std::int64_t quarantined_count = 0);

// Writes report and metrics, prints the result, returns the exit code: 1 when AP does not reach
// --min-ap. metrics.json comes last: it marks the end.
int publish(const EvalOptions& options, const OutputFolder& folder, const CocoMetrics& metrics,
            const Report& report);

}  // namespace retina
