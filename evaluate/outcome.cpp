#include "evaluate/outcome.h"

#include <algorithm>
#include <iostream>
#include <map>

#include "evaluate/page/eval_page.h"
#include "shared/base/error.h"
#include "shared/base/log.h"
#include "shared/data/record_picture.h"
#include "shared/evaluation/explanation.h"
#include "shared/evaluation/metrics_text.h"
#include "shared/evaluation/pictures.h"
#include "shared/image/jpeg.h"
#include "shared/report/report.h"

namespace retina {

std::string quoted(const std::string& text) {
  return JsonWriter().value(text).text();
}

namespace {

constexpr int kPictureSidePx = 480;

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

// What the page draws on: the pictures without boxes, small.
std::map<std::int64_t, std::string> picture_files(const Explanation& explanation,
                                                  const Scored& scored) {
  std::map<std::int64_t, std::string> files;
  for (const PicturedImage& one : explanation.pictured) files[one.image.id];
  JpegDecoder decoder;
  Image image;
  const auto& index = scored.shards->index();
  for (std::size_t place = 0; place < index.size(); ++place) {
    const auto file = files.find(index[place].image_id);
    if (file == files.end()) continue;
    decode_picture(scored.shards->read(place), scored.shards->folder(), decoder, image);
    file->second = make_picture(image, "", kPictureSidePx).jpeg;
    scored.on_progress();
  }
  return files;
}

// --draw: those whose errors cost most, then others by id.
void draw_worst(const EvalOptions& options, const OutputFolder& folder,
                const Explanation& explanation, const Scored& scored) {
  draw_detections(*scored.shards, scored.boxes.detections(),
                  {.count = static_cast<std::size_t>(options.draw),
                   .score = options.draw_score,
                   .first_ids = explanation.worst.ap_lost},
                  [&](const DrawnImage& drawn) {
                    write_file_atomically(folder.drawn_path(drawn.image_id),
                                          encode_jpeg(drawn.image, kDrawnQuality));
                    scored.on_progress();
                  });
}

}  // namespace

int already_done(const EvalOptions& options, const OutputFolder& folder, double ap,
                 std::int64_t quarantined_count) {
  std::cout << folder.path() << ": already evaluated, AP " << metric_text(ap)
            << " (--overwrite to do it again)\n";
  return verdict(options, ap, quarantined_count);
}

int publish(const EvalOptions& options, const Cli& cli, const OutputFolder& folder,
            const Scored& scored) {
  const CocoMetrics& metrics = scored.metrics;
  const std::string oddities = oddities_text(metrics);
  if (!oddities.empty()) log_warning(oddities);
  const auto file_count = static_cast<std::size_t>(options.draw);
  const Explanation explanation = explain_detections(
      scored.boxes, {.most_worst = std::max(ExplainOptions().most_worst, file_count)});
  scored.on_progress();

  EvalPage page{.subtitle = scored.subject,
                .metrics_json = metrics_json(metrics, explanation),
                .settings = cli.effective()};
  if (!oddities.empty()) page.notes.push_back(oddities + ".");
  if (scored.shards != nullptr) {
    page.jpegs = picture_files(explanation, scored);
    if (file_count > 0) draw_worst(options, folder, explanation, scored);
  }
  folder.check_present();
  write_file_atomically(folder.report_path(), render_eval_page(page));
  write_file_atomically(folder.metrics_path(), page.metrics_json);
  std::cout << coco_summary_text(metrics) << '\n'
            << class_table_text(metrics) << '\n'
            << "report: " << folder.report_path() << '\n';
  return verdict(options, metrics.stats[kAp], metrics.quarantined_count);
}

}  // namespace retina
