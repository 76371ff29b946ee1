#include "evaluate/outcome.h"

#include <iostream>

#include "shared/base/error.h"
#include "shared/base/log.h"
#include "shared/evaluation/metrics_text.h"

namespace retina {

std::string quoted(const std::string& text) {
  return JsonWriter().value(text).text();
}

namespace {

// 0, or 1 when AP does not reach --min-ap. An AP that leaves out images of the set is marked either
// way.
int verdict(const EvalOptions& options, double ap, std::int64_t quarantined_count) {
  if (!options.min_ap) return 0;
  const std::string lacking =
      quarantined_count == 0 ? "" : cat(" (without ", quarantined_count, " quarantined images)");
  if (ap >= *options.min_ap) {
    if (!lacking.empty()) {
      log_warning("AP ", fixed(ap, 4), lacking, " reaches --min-ap ", *options.min_ap);
    }
    return 0;
  }
  log_error("AP ", fixed(ap, 4), lacking, " is below --min-ap ", *options.min_ap);
  return exit_code(ErrorKind::kAnswerNo);
}

}  // namespace

int already_done(const EvalOptions& options, const OutputFolder& folder, double ap,
                 std::int64_t quarantined_count) {
  std::cout << folder.path() << ": already evaluated, AP " << metric_text(ap)
            << " (--overwrite to do it again)\n";
  return verdict(options, ap, quarantined_count);
}

int publish(const EvalOptions& options, const OutputFolder& folder, const CocoMetrics& metrics,
            const Report& report) {
  const std::string oddities = oddities_text(metrics);
  if (!oddities.empty()) log_warning(oddities);
  folder.check_present();
  write_file_atomically(folder.report_path(), render_report(report));
  write_file_atomically(folder.metrics_path(), metrics_json(metrics));
  std::cout << coco_summary_text(metrics) << '\n'
            << class_table_text(metrics) << '\n'
            << "report: " << folder.report_path() << '\n';
  return verdict(options, metrics.stats[kAp], metrics.quarantined_count);
}

}  // namespace retina
