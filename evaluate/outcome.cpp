#include "evaluate/outcome.h"

#include <algorithm>
#include <iostream>
#include <map>

#include "evaluate/drawn_files.h"
#include "evaluate/page/eval_page.h"
#include "evaluate/wanted_metric.h"
#include "shared/base/log.h"
#include "shared/evaluation/explain/explanation.h"
#include "shared/evaluation/explain/metrics_text.h"
#include "shared/evaluation/explain/shown_images.h"
#include "shared/image/jpeg.h"

namespace retina {

std::string quoted(const std::string& text) {
  return JsonWriter().value(text).text();
}

namespace {

constexpr int kImageSidePx = 480;

int ap_exit_code(const EvalOptions& options, double ap, std::int64_t quarantined_count) {
  return exit_code_for({.name = "AP", .option = "min-ap", .least = options.min_ap}, ap,
                       quarantined_count);
}

// What the page draws on.
std::map<std::int64_t, std::string> image_urls(const Explanation& explanation,
                                               const Scored& scored) {
  std::vector<std::int64_t> ids;
  for (const ShownImage& one : explanation.shown) ids.push_back(one.image.id);
  return drawn_files(*scored.shards, ids,
                     {.max_side_px = kImageSidePx, .on_image = scored.on_progress});
}

// --draw: those whose errors cost most, then others by id.
void draw_worst(const EvalOptions& options, const EvaluationFolder& folder,
                const Explanation& explanation, const Scored& scored) {
  draw_detections(*scored.shards, scored.boxes.detections(),
                  {.count = static_cast<std::size_t>(options.draw),
                   .score = options.draw_score,
                   .first_ids = explanation.worst.ap_lost},
                  [&](const DrawnImage& drawn) {
                    write_file_atomically(folder.drawn_path(drawn.image_id, drawn.file_name),
                                          encode_jpeg(drawn.image, kDrawnQuality));
                    scored.on_progress();
                  });
}

}  // namespace

int already_done(const EvalOptions& options, const EvaluationFolder& folder, double ap,
                 std::int64_t quarantined_count) {
  std::cout << folder.path() << ": already evaluated, AP " << metric_text(ap)
            << " (--overwrite to do it again)\n";
  return ap_exit_code(options, ap, quarantined_count);
}

int publish(const EvalOptions& options, const Cli& cli, const EvaluationFolder& folder,
            const Scored& scored) {
  const CocoMetrics& metrics = scored.metrics;
  std::vector<std::string> notes = scored.notes;
  notes.push_back(oddities_text(metrics));
  std::erase(notes, "");
  for (const std::string& note : notes) log_warning(note);
  const auto file_count = static_cast<std::size_t>(options.draw);
  const Explanation explanation = explain_detections(
      scored.boxes, {.most_worst = std::max(ExplainOptions().most_worst, file_count)});
  scored.on_progress();

  const std::string summary =
      metrics.object_count == 0 ? no_truth_text(metrics) : coco_summary_text(metrics);
  Page page{.title = kEvaluationTitle,
            .subtitle = scored.subject,
            .summary = summary,
            .data = metrics_json(metrics, explanation),
            .settings = settings_of(cli.effective())};
  for (const std::string& note : notes) page.notes.push_back(note + ".");
  if (scored.shards != nullptr) {
    page.jpegs = image_urls(explanation, scored);
    if (file_count > 0) draw_worst(options, folder, explanation, scored);
  }
  folder.check_present();
  write_file_atomically(folder.report_path(), render_page(page, kDetectionScript));
  write_file_atomically(folder.metrics_path(), page.data);
  std::cout << summary << '\n'
            << (metrics.object_count == 0 ? "" : class_table_text(metrics))
            << "\nreport: " << folder.report_path() << '\n';
  return ap_exit_code(options, metrics.stats[kAp], metrics.quarantined_count);
}

}  // namespace retina
