#include "evaluate/explain/classification_text.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "evaluate/explain/json_fields.h"
#include "evaluate/explain/predictions.h"
#include "shared/base/cat.h"
#include "shared/base/printable.h"
#include "shared/base/text_table.h"
#include "shared/evaluation/score/metrics_text.h"

namespace retina {

namespace {

constexpr std::size_t kMostWrong = 24, kMostPairs = 50, kMostOfPair = 3;

std::vector<ConfusedExamples> frequent_pairs(const ClassificationMetrics& metrics,
                                             std::size_t most) {
  std::vector<ConfusedExamples> pairs;
  for (const ConfusedPair& pair : metrics.confusion) {
    if (pair.truth != pair.predicted) pairs.push_back({.pair = pair});
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const ConfusedExamples& a, const ConfusedExamples& b) {
                     return a.pair.count > b.pair.count;
                   });
  if (pairs.size() > most) pairs.resize(most);
  return pairs;
}

std::string range_text(const std::optional<Interval>& interval, int digits) {
  if (!interval) return "-";
  return cat(fixed(interval->low, digits), " to ", fixed(interval->high, digits));
}

// Formats a metric with four decimals, to show an image in ten thousand.
TextRow headline(const std::string& name, const Proportion& share) {
  const std::optional<double> value = share.value();
  return {name, value ? fixed(*value, 4) : "-",
          cat(range_text(share.interval(), 4), "  (95 % interval)")};
}

void write_share(JsonWriter& json, const std::string& key, const Proportion& share) {
  write_optional(json, key, share.value());
  write_interval(json, key + "_interval", share.interval());
}

std::int64_t id_of(const Categories& categories, std::int32_t label) {
  return categories.at(static_cast<std::size_t>(label)).id;
}

void write_pairs(JsonWriter& json, const ClassificationMetrics& metrics,
                 const Categories& categories) {
  json.begin_array();
  for (const ConfusedPair& pair : metrics.confusion) {
    json.begin_array()
        .value(id_of(categories, pair.truth))
        .value(id_of(categories, pair.predicted));
    json.value(pair.count).end_array();
  }
  json.end_array();
}

void write_most_confused(JsonWriter& json, const ClassExamples& examples,
                         const Categories& categories) {
  json.begin_array();
  for (const ConfusedExamples& one : examples.most_confused) {
    json.begin_object()
        .field("truth", id_of(categories, one.pair.truth))
        .field("predicted", id_of(categories, one.pair.predicted))
        .field("count", one.pair.count);
    json.list("images", one.image_ids).end_object();
  }
  json.end_array();
}

void write_shown(JsonWriter& json, const ClassExamples& examples, const Categories& categories,
                 const FileNames& file_names) {
  json.begin_array();
  for (const ClassOutcome& one : examples.shown) {
    const auto name = file_names.find(one.image_id);
    json.begin_object()
        .field("image_id", one.image_id)
        .field("file_name", name == file_names.end() ? "" : name->second);
    write_outcome(json, one, categories);
    json.end_object();
  }
  json.end_array();
}

}  // namespace

ClassExamples class_examples(const std::vector<ClassOutcome>& outcomes,
                             const ClassificationMetrics& metrics) {
  const std::vector<const ClassOutcome*> wrong = mistakes_by_confidence(outcomes);
  ClassExamples examples{.most_confused = frequent_pairs(metrics, kMostPairs)};
  std::set<std::int64_t> chosen;
  for (std::size_t i = 0; i < std::min(kMostWrong, wrong.size()); ++i) {
    examples.confident_wrong.push_back(wrong[i]->image_id);
    chosen.insert(wrong[i]->image_id);
  }
  std::map<std::pair<std::int32_t, std::int32_t>, ConfusedExamples*> wanted;
  for (ConfusedExamples& one : examples.most_confused) {
    wanted[{one.pair.truth, one.pair.predicted}] = &one;
  }
  for (const ClassOutcome* one : wrong) {
    const auto found = wanted.find({one->label, one->predicted()});
    if (found == wanted.end()) continue;
    std::vector<std::int64_t>& ids = found->second->image_ids;
    if (ids.size() == kMostOfPair) continue;
    ids.push_back(one->image_id);
    chosen.insert(one->image_id);
  }
  for (const ClassOutcome& one : outcomes) {
    if (chosen.contains(one.image_id)) examples.shown.push_back(one);
  }
  return examples;
}

std::string share_text(const std::optional<double>& value) {
  return value ? fixed(*value, 3) : "-";
}

std::string classification_summary_text(const ClassificationMetrics& metrics) {
  std::vector<TextRow> rows{{"images", cat(metrics.image_count), ""},
                            headline("top-1", metrics.top1)};
  if (metrics.per_class.size() > kBestLabels) rows.push_back(headline("top-5", metrics.top5));
  rows.push_back({"loss", fixed(metrics.loss, 4), "cross-entropy, mean"});
  const std::optional<double>& balanced = metrics.balanced_accuracy;
  rows.push_back({"balanced", balanced ? fixed(*balanced, 4) : "-", "accuracy, mean over classes"});
  rows.push_back({"calibration", fixed(metrics.calibration_error, 4),
                  cat("expected error, ", kReliabilityBinCount, " bins")});
  return aligned_table(rows, ToTheLeft::kFirstAndLast);
}

std::string classification_table_text(const ClassificationMetrics& metrics) {
  std::vector<TextRow> rows{
      {"class", "recall", "95 % interval", "precision", "F1", "images", "predicted"}};
  for (const ImageClassMetrics& one : metrics.per_class) {
    rows.push_back({escaped(one.name), share_text(one.recall().value()),
                    range_text(one.recall().interval(), 3), share_text(one.precision().value()),
                    share_text(one.f1()), cat(one.image_count), cat(one.predicted_count)});
  }
  return aligned_table(rows);
}

std::string classification_oddities_text(const ClassificationMetrics& metrics) {
  std::string text = quarantined_text(metrics.quarantined_count);
  std::int64_t empty_count = 0;
  for (const ImageClassMetrics& one : metrics.per_class)
    empty_count += one.image_count == 0 ? 1 : 0;
  if (empty_count > 0) {
    text += (cat(text.empty() ? "" : "; ", empty_count, " of ", metrics.per_class.size(),
                 " classes have no image here: not in the balanced accuracy"));
  }
  return text;
}

std::string classification_json(const ClassificationMetrics& metrics, const ClassExamples& examples,
                                const FileNames& file_names) {
  Categories categories;
  JsonWriter json;
  json.begin_object()
      .field("task", kClassificationTask)
      .field("image_count", metrics.image_count)
      .field("class_count", static_cast<std::uint64_t>(metrics.per_class.size()));
  write_share(json, "top1", metrics.top1);
  write_share(json, "top5", metrics.top5);
  json.field("top5_labels", metrics.top5_labels).field("loss", metrics.loss);
  write_optional(json, "balanced_accuracy", metrics.balanced_accuracy);
  json.field("quarantined_count", metrics.quarantined_count);
  json.key("per_class").begin_array();
  for (const ImageClassMetrics& one : metrics.per_class) {
    categories.push_back({.id = one.category_id, .name = one.name});
    json.begin_object()
        .field("category_id", one.category_id)
        .field("name", one.name)
        .field("image_count", one.image_count)
        .field("predicted_count", one.predicted_count);
    write_share(json, "recall", one.recall());
    write_share(json, "precision", one.precision());
    write_optional(json, "f1", one.f1());
    json.end_object();
  }
  json.end_array().end_object();
  return with_lines(
      json.pretty_text(),
      {json_line(
           "calibration",
           [&](JsonWriter& j) { write_bins(j, metrics.reliability, metrics.calibration_error); }),
       json_line("confusion", [&](JsonWriter& j) { write_pairs(j, metrics, categories); }),
       json_line("confident_wrong", [&](JsonWriter& j) { j.list(examples.confident_wrong); }),
       json_line("most_confused",
                 [&](JsonWriter& j) { write_most_confused(j, examples, categories); }),
       json_line("images",
                 [&](JsonWriter& j) { write_shown(j, examples, categories, file_names); })});
}

}  // namespace retina
