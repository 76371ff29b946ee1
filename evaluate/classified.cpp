#include "evaluate/classified.h"

#include <algorithm>
#include <iostream>
#include <unordered_map>

#include "evaluate/drawn_files.h"
#include "evaluate/outcome.h"
#include "evaluate/page/eval_page.h"
#include "evaluate/wanted_metric.h"
#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/log.h"
#include "shared/data/record_image.h"
#include "shared/evaluation/explain/class_examples.h"
#include "shared/evaluation/explain/class_images.h"
#include "shared/evaluation/explain/classification_text.h"
#include "shared/evaluation/score/classification.h"
#include "shared/evaluation/score/predictions.h"
#include "shared/image/jpeg.h"

namespace retina {

namespace {

constexpr int kSmallImageSidePx = 240;  // a page may have 170 of them

int top1_exit_code(const EvalOptions& options, double top1, std::int64_t quarantined_count) {
  return exit_code_for({.name = "top-1", .option = "min-top1", .least = options.min_top1}, top1,
                       quarantined_count);
}

void refuse_option(const EvalOptions& options, const char* name, const char* task,
                   const std::string& hint) {
  throw Error(ErrorKind::kConfig,
              cat("--", name, ": has no meaning for ", options.model, ", which is a ", task), hint);
}

// --draw: the most confident mistakes, each above its true and its predicted class.
void draw_mistakes(const EvalOptions& options, const EvaluationFolder& folder,
                   const Classified& classified) {
  const Categories& categories = classified.shards.manifest().categories;
  const auto name_of = [&](std::int32_t label) {
    return categories.at(static_cast<std::size_t>(label)).name;
  };
  std::unordered_map<std::int64_t, std::size_t> places;
  const auto& index = classified.shards.index();
  for (std::size_t i = 0; i < index.size(); ++i) places.emplace(index[i].image_id, i);
  std::vector<const ClassOutcome*> mistakes = mistakes_by_confidence(classified.outcomes);
  mistakes.resize(std::min(mistakes.size(), static_cast<std::size_t>(options.draw)));
  JpegDecoder decoder;
  Image image;
  for (const ClassOutcome* one : mistakes) {
    const Record record = classified.shards.read(places.at(one->image_id));
    decode_image(record, classified.shards.folder(), decoder, image);
    const Image drawn = captioned(image, {.truth = name_of(one->label),
                                          .predicted = name_of(one->predicted()),
                                          .confidence = one->confidence()});
    write_file_atomically(folder.drawn_path(record.image_id, record.file_name),
                          encode_jpeg(drawn, kDrawnQuality));
    classified.on_progress();
  }
}

}  // namespace

void check_classifier_options(const EvalOptions& options) {
  for (const auto& [name, is_given] : {std::pair{"min-ap", options.min_ap.has_value()},
                                       {"score-threshold", options.score_threshold.has_value()},
                                       {"nms-threshold", options.nms_threshold.has_value()},
                                       {"max-detections", options.max_detections.has_value()}}) {
    if (!is_given) continue;
    refuse_option(options, name, "classifier",
                  options.min_ap ? "give --min-top1" : "leave the option out");
  }
}

void check_detector_options(const EvalOptions& options) {
  if (options.min_top1) refuse_option(options, "min-top1", "detector", "give --min-ap");
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

int already_classified(const EvalOptions& options, const EvaluationFolder& folder, double top1,
                       std::int64_t quarantined_count) {
  std::cout << folder.path() << ": already evaluated, top-1 " << fixed(top1, 4)
            << " (--overwrite to do it again)\n";
  return top1_exit_code(options, top1, quarantined_count);
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
  page.jpegs = drawn_files(classified.shards, shown,
                           {.max_side_px = kSmallImageSidePx, .on_image = classified.on_progress});
  draw_mistakes(options, folder, classified);
  folder.check_present();
  write_file_atomically(folder.report_path(), render_page(page, kClassificationScript));
  write_file_atomically(folder.metrics_path(), page.data);
  std::cout << page.summary << '\n'
            << classification_table_text(metrics) << '\n'
            << "report: " << folder.report_path() << '\n';
  return top1_exit_code(options, metrics.top1.value().value(), metrics.quarantined_count);
}

}  // namespace retina
