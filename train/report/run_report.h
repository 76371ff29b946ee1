// The run's report page: curves from the metrics, settings, images of the last validation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/cli/cli.h"
#include "shared/evaluation/score/verdict.h"
#include "shared/report/report.h"
#include "train/monitor/metrics_log.h"

namespace retina {

struct RunReportInput {
  std::string title = {};
  std::int64_t total_steps = 0;
  int rank_count = 1;
  std::string verdict = {};  // empty: none
  std::vector<EffectiveOption> options = {};
  Gallery gallery = {};  // images of the last validation; without images: no gallery
  Table classes = {};    // classes of the last validation; without rows: no table
};

// Returns a detector's course for its verdict.
TrainingCourse course_of(const MetricsLog& log, std::int64_t total_steps);

std::string run_report_html(const RunReportInput& input, const MetricsLog& log);

}  // namespace retina
