#include "evaluate/outcome.h"

#include <algorithm>
#include <iostream>
#include <optional>
#include <set>

#include "evaluate/page/eval_page.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/log.h"
#include "shared/data/record_image.h"
#include "shared/evaluation/explain/explanation.h"
#include "shared/evaluation/explain/metrics_json.h"
#include "shared/evaluation/explain/metrics_text.h"
#include "shared/evaluation/explain/shown_images.h"
#include "shared/image/jpeg.h"
#include "shared/report/report.h"

namespace retina {

std::string quoted(const std::string& text) {
  return JsonWriter().value(text).text();
}

void add_count_best(EvalIdentity& identity, std::uint32_t detection_limit) {
  if (detection_limit == kMaxDetectionsPerImage) return;
  identity.emplace_back(EvaluationFolder::kCountBest, cat(detection_limit));
}

std::string drawn_text(const EvalOptions& options, const EvaluationFolder& folder,
                       const Drawn& drawn, const std::vector<Detection>& detections) {
  std::string text = "drawn: none";
  if (drawn.image_count > 0)
    text = cat("drawn: ", drawn.image_count, " in ", folder.path(), "/drawn");
  const auto asked = static_cast<std::size_t>(options.draw);
  if (drawn.found_count > 0) {
    return cat(text,
               drawn.image_count < asked ? ", no other image has detections to draw\n" : "\n");
  }
  double best_score = -1;
  for (const Detection& one : detections) best_score = std::max(best_score, one.score);
  if (best_score >= options.draw_score)
    return cat(text, ", whose detections are on other images\n");
  const double threshold = options.score_threshold.value_or(0);
  const bool is_filtered = threshold > options.draw_score;
  return cat(text, drawn.image_count > 0 ? ", without detections: " : ", ", "no score reaches ",
             is_filtered ? "--score-threshold " : "--draw score=",
             shortest(is_filtered ? threshold : options.draw_score),
             best_score < 0 ? "" : cat(" (the best is ", fixed(best_score, 3), ")"), "\n");
}

namespace {

constexpr int kImageSidePx = 480;
// Side for images that were packed as tiles: their objects are small.
constexpr int kTiledImageSidePx = 1280;

// Draws the images whose errors cost most AP, then others by id (--draw). Returns the text to print
// about them.
std::string draw_worst(const EvalOptions& options, const EvaluationFolder& folder,
                       const Explanation& explanation, const Scored& scored) {
  Drawn sum;
  std::set<std::int64_t> evaluated;
  for (const ImageInfo& image : scored.boxes.truth().images) evaluated.insert(image.id);
  draw_detections(*scored.shards, scored.boxes.detections(),
                  {.count = static_cast<std::size_t>(options.draw),
                   .score = options.draw_score,
                   .first_ids = explanation.worst.ap_lost,
                   .may_be_drawn = [&](std::int64_t id) { return evaluated.contains(id); }},
                  [&](const DrawnImage& drawn) {
                    write_file_atomically(
                        folder.drawn_path(drawn.image_id, drawn.file_name, drawn.part),
                        encode_jpeg(drawn.image, kDrawnQuality));
                    scored.on_progress();
                    ++sum.image_count;
                    sum.found_count += static_cast<std::size_t>(drawn.found_count);
                  });
  return drawn_text(options, folder, sum, scored.boxes.detections());
}

}  // namespace

int exit_code_for(const EvalOptions& options, const DecidingMetric& metric) {
  const bool is_ap = metric.task == Task::kDetection;
  const std::optional<double>& least = options.min_score;
  if (!least) return 0;
  const std::int64_t lacking = metric.quarantined_count;
  const std::string text =
      cat(is_ap ? "AP" : "top-1", " ", fixed(metric.value, 4),
          lacking == 0 ? "" : cat(" (without ", counted(lacking, "quarantined image"), ")"));
  if (metric.value >= *least) {
    if (lacking > 0) log_warning(text, " reaches --min-score ", *least);
    return 0;
  }
  if (metric.value < 0) {
    log_error("--min-score ", *least, ": there is no AP, because no object is to be found");
  } else {
    log_error(text, " is below --min-score ", *least);
  }
  return exit_code(ErrorKind::kAnswerNo);
}

int already_done(const EvalOptions& options, const EvaluationFolder& folder,
                 const DecidingMetric& metric) {
  std::cout << folder.path() << ": already evaluated, "
            << (metric.task == Task::kDetection ? cat("AP ", metric_text(metric.value))
                                                : cat("top-1 ", fixed(metric.value, 4)))
            << " (--overwrite to do it again)\n";
  return exit_code_for(options, metric);
}

std::map<std::int64_t, std::string> page_images(const ShardSet& shards,
                                                const std::vector<std::int64_t>& image_ids,
                                                int max_side_px,
                                                const std::function<void()>& on_image) {
  std::map<std::int64_t, std::string> files;
  const auto places = image_places(shards);
  JpegDecoder decoder;
  Image image;
  for (const std::int64_t id : image_ids) {
    std::string& file = files[id];
    const auto of_image = places.find(id);
    if (of_image == places.end()) continue;
    if (is_tiled(shards.index())) {
      file = embed_image(put_together(shards, of_image->second, decoder, kTiledImageSidePx), "",
                         kTiledImageSidePx)
                 .jpeg;
    } else {
      decode_image(shards.read(of_image->second.front()), shards.folder(), decoder, image);
      file = embed_image(image, "", max_side_px).jpeg;
    }
    on_image();
  }
  return files;
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
  std::string drawn;
  if (scored.shards != nullptr) {
    std::vector<std::int64_t> shown;
    for (const ShownImage& one : explanation.shown) shown.push_back(one.image.id);
    page.jpegs = page_images(*scored.shards, shown, kImageSidePx, scored.on_progress);
    if (file_count > 0) drawn = draw_worst(options, folder, explanation, scored);
  }
  folder.check_present();
  write_file_atomically(folder.report_path(), render_page(page, kDetectionScript));
  write_file_atomically(folder.metrics_path(), page.data);
  std::cout << summary << '\n'
            << (metrics.object_count == 0 ? "" : class_table_text(metrics)) << '\n'
            << drawn << "report: " << folder.report_path() << '\n';
  return exit_code_for(options, {Task::kDetection, metrics.stats[kAp], metrics.quarantined_count});
}

}  // namespace retina
