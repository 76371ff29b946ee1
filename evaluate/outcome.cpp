#include "evaluate/outcome.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <set>

#include "evaluate/explain/classification_text.h"
#include "evaluate/explain/explanation.h"
#include "evaluate/explain/predictions.h"
#include "evaluate/page/eval_page.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/log.h"
#include "shared/data/record_image.h"
#include "shared/evaluation/draw/shown_images.h"
#include "shared/evaluation/score/classification.h"
#include "shared/evaluation/score/metrics_text.h"
#include "shared/evaluation/score/resampling.h"
#include "shared/evaluation/score/verdict.h"
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
                       std::size_t drawn_count) {
  const std::string drawn =
      drawn_count == 0 ? "none" : cat(drawn_count, " in ", folder.path(), "/drawn");
  return cat("drawn: ", drawn,
             drawn_count == static_cast<std::size_t>(options.draw)
                 ? ""
                 : cat("; other images have nothing to draw, with --draw score=",
                       shortest(options.draw_score)),
             "\n");
}

namespace {

constexpr int kImageSidePx = 480;
// Side for images that were packed as tiles: their objects are small.
constexpr int kTiledImageSidePx = 1280;

// Draws the images whose errors cost most AP, then others by id (--draw). Returns the text to print
// about them.
std::string draw_worst(const EvalOptions& options, const EvaluationFolder& folder,
                       const Explanation& explanation, const Scored& scored) {
  std::size_t drawn_count = 0;
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
                    ++drawn_count;
                  });
  return drawn_text(options, folder, drawn_count);
}

// Returns images of a set for a report page: small JPEG files by image id, without drawings. Ids
// that the set lacks get empty ones. Calls `on_image` after each. Throws kData when a record is
// damaged.
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

constexpr int kSmallImageSidePx = 240;  // a page may have 170 of them

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
  const std::string sentence = verdict(verdict_facts(metrics, scored.boxes));
  Page page{.title = kEvaluationTitle,
            .subtitle = sentence.empty() ? scored.subject : cat(sentence, ". ", scored.subject),
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
            << drawn << (sentence.empty() ? "" : sentence + "\n")
            << "report: " << folder.report_path() << '\n';
  return exit_code_for(options, {Task::kDetection, metrics.stats[kAp], metrics.quarantined_count});
}

void check_classifier_options(const EvalOptions& options) {
  for (const auto& [name, is_given] :
       {std::pair{"--score-threshold", options.score_threshold.has_value()},
        {"--nms-threshold", options.nms_threshold.has_value()},
        {"--max-detections", options.max_detections.has_value()},
        {"--count-best", options.count_best.has_value()}}) {
    if (!is_given) continue;
    throw Error(ErrorKind::kConfig,
                cat(name, ": has no meaning for ", options.model, ", which is a classifier"),
                "leave the option out");
  }
}

EvalIdentity classifier_identity(const EvalOptions& options, const std::string& data_hash) {
  EvalIdentity identity{{EvaluationFolder::kTask, quoted(kClassificationTask)},
                        {"model", quoted(hex64(xxh3_file(options.model)))},
                        {"data", quoted(data_hash)},
                        {"max-images", cat(options.max_images)},
                        {"draw", cat(options.draw)}};
  if (options.precision != Precision::kFp32) {
    identity.emplace_back("precision", quoted(word_of(kPrecisions, options.precision)));
  }
  return identity;
}

int evaluate_classifier_outputs(const EvalOptions& options, const Cli& cli,
                                const EvaluationFolder& folder, const Classified& classified) {
  const Manifest& manifest = classified.shards.manifest();
  if (classified.outcomes.empty()) {
    throw Error(ErrorKind::kData, cat(classified.shards.folder(), ": has no images to evaluate"));
  }
  ClassificationMetrics metrics = classification_metrics(classified.outcomes, manifest.categories);
  metrics.quarantined_count = manifest.counts.quarantined;
  const std::string oddities = classification_oddities_text(metrics);
  if (!oddities.empty()) log_warning(oddities);
  const ClassExamples examples = class_examples(classified.outcomes, metrics);
  classified.on_progress();

  folder.check_present();
  const FileNames file_names = file_names_of(classified.shards.index());
  write_predictions(folder.predictions_path(), classified.outcomes, manifest.categories,
                    file_names);
  Page page{.title = kEvaluationTitle,
            .subtitle = classified.subject,
            .summary = classification_summary_text(metrics),
            .data = classification_json(metrics, examples, file_names),
            .settings = settings_of(cli.effective())};
  if (!oddities.empty()) page.notes.push_back(oddities + ".");
  std::vector<std::int64_t> shown;
  for (const ClassOutcome& one : examples.shown) shown.push_back(one.image_id);
  page.jpegs = page_images(classified.shards, shown, kSmallImageSidePx, classified.on_progress);
  draw_mistakes(classified.shards, classified.outcomes, static_cast<std::size_t>(options.draw),
                [&](const DrawnImage& drawn) {
                  write_file_atomically(folder.drawn_path(drawn.image_id, drawn.file_name),
                                        encode_jpeg(drawn.image, kDrawnQuality));
                  classified.on_progress();
                });
  folder.check_present();
  write_file_atomically(folder.report_path(), render_page(page, kClassificationScript));
  write_file_atomically(folder.metrics_path(), page.data);
  std::cout << page.summary << '\n'
            << classification_table_text(metrics) << '\n'
            << "report: " << folder.report_path() << '\n';
  return exit_code_for(
      options, {Task::kClassification, metrics.top1.value().value(), metrics.quarantined_count});
}

}  // namespace retina
