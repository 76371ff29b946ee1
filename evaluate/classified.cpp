#include "evaluate/classified.h"

#include <iostream>

#include "evaluate/outcome.h"
#include "evaluate/page/eval_page.h"
#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/log.h"
#include "shared/evaluation/explain/class_examples.h"
#include "shared/evaluation/explain/classification_text.h"
#include "shared/evaluation/explain/shown_images.h"
#include "shared/evaluation/score/classification.h"
#include "shared/evaluation/score/predictions.h"
#include "shared/image/jpeg.h"

namespace retina {

namespace {

constexpr int kSmallImageSidePx = 240;  // a page may have 170 of them

}  // namespace

void check_classifier_options(const EvalOptions& options) {
  for (const auto& [name, is_given] :
       {std::pair{"score-threshold", options.score_threshold.has_value()},
        {"nms-threshold", options.nms_threshold.has_value()},
        {"max-detections", options.max_detections.has_value()},
        {"count-best", options.count_best.has_value()}}) {
    if (!is_given) continue;
    throw Error(ErrorKind::kConfig,
                cat("--", name, ": has no meaning for ", options.model, ", which is a classifier"),
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
