#include "shared/evaluation/explain/classification_text.h"

#include <vector>

#include "shared/base/cat.h"
#include "shared/base/json.h"
#include "shared/base/printable.h"
#include "shared/evaluation/score/optional_json.h"
#include "shared/evaluation/score/text_table.h"

namespace retina {

namespace {

std::string range_text(const std::optional<Interval>& interval, int digits) {
  if (!interval) return "-";
  return cat(fixed(interval->low, digits), " to ", fixed(interval->high, digits));
}

// Four decimals: an image in ten thousand.
TextRow headline(const std::string& name, const Proportion& share) {
  const std::optional<double> value = share.value();
  return {name, value ? fixed(*value, 4) : "-",
          cat(range_text(share.interval(), 4), "  (95 % interval)")};
}

void write_share(JsonWriter& json, const std::string& key, const Proportion& share) {
  write_optional(json, key, share.value());
  write_interval(json, key + "_interval", share.interval());
}

void write_reliability(JsonWriter& json, const ClassificationMetrics& metrics) {
  json.begin_object().key("bins").begin_array();
  for (std::size_t i = 0; i < kReliabilityBinCount; ++i) {
    const CalibrationBin& bin = metrics.reliability[i];
    json.begin_object()
        .field("low", static_cast<double>(i) / kReliabilityBinCount)
        .field("high", static_cast<double>(i + 1) / kReliabilityBinCount)
        .field("count", bin.count)
        .field("mean_score", bin.mean_score())
        .field("precision", bin.precision())
        .end_object();
  }
  json.end_array().field("error", metrics.calibration_error).end_object();
}

using IdOf = std::vector<std::int64_t>;  // by label

std::int64_t id_of(const IdOf& ids, std::int32_t label) {
  return ids.at(static_cast<std::size_t>(label));
}

void write_pairs(JsonWriter& json, const ClassificationMetrics& metrics, const IdOf& ids) {
  json.begin_array();
  for (const ConfusedPair& pair : metrics.confusion) {
    json.begin_array().value(id_of(ids, pair.truth)).value(id_of(ids, pair.predicted));
    json.value(pair.count).end_array();
  }
  json.end_array();
}

void write_image_ids(JsonWriter& json, const std::vector<std::int64_t>& image_ids) {
  json.begin_array();
  for (const std::int64_t id : image_ids) json.value(id);
  json.end_array();
}

void write_most_confused(JsonWriter& json, const ClassExamples& examples, const IdOf& ids) {
  json.begin_array();
  for (const ConfusedExamples& one : examples.most_confused) {
    json.begin_object()
        .field("truth", id_of(ids, one.pair.truth))
        .field("predicted", id_of(ids, one.pair.predicted))
        .field("count", one.pair.count)
        .key("images");
    write_image_ids(json, one.image_ids);
    json.end_object();
  }
  json.end_array();
}

void write_shown(JsonWriter& json, const ClassExamples& examples, const IdOf& ids,
                 const FileNames& file_names) {
  json.begin_array();
  for (const ClassOutcome& one : examples.shown) {
    const auto name = file_names.find(one.image_id);
    json.begin_object()
        .field("image_id", one.image_id)
        .field("file_name", name == file_names.end() ? "" : name->second)
        .field("category_id", id_of(ids, one.label))
        .field("rank", static_cast<std::int64_t>(one.rank))
        .field("loss", one.loss);
    json.key("top5").begin_array();
    for (std::size_t i = 0; i < kBestLabels && one.best[i] >= 0; ++i) {
      json.begin_array().value(id_of(ids, one.best[i])).value(one.probabilities[i]).end_array();
    }
    json.end_array().end_object();
  }
  json.end_array();
}

// `"key": {...}` on a line of its own.
template <class Write>
std::string json_line(const char* key, const Write& write) {
  JsonWriter json;
  write(json);
  return cat("  \"", key, "\": ", json.text());
}

}  // namespace

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
  return aligned_table(rows, true);
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
  std::string text;
  const auto add = [&text](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
  if (metrics.quarantined_count > 0) {
    add(cat(metrics.quarantined_count,
            metrics.quarantined_count == 1 ? " image of the set is" : " images of the set are",
            " quarantined (quarantine.jsonl): not in these numbers"));
  }
  std::int64_t empty_count = 0;
  for (const ImageClassMetrics& one : metrics.per_class)
    empty_count += one.image_count == 0 ? 1 : 0;
  if (empty_count > 0) {
    add(cat(empty_count, " of ", metrics.per_class.size(),
            " classes have no image here: not in the balanced accuracy"));
  }
  return text;
}

std::string classification_json(const ClassificationMetrics& metrics, const ClassExamples& examples,
                                const FileNames& file_names) {
  IdOf ids;
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
    ids.push_back(one.category_id);
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
  std::string text = json.pretty_text();
  // Indented, the lists would be several times as long.
  text.erase(text.rfind("\n}"));
  return cat(
      text, ",\n", json_line("calibration", [&](JsonWriter& j) { write_reliability(j, metrics); }),
      ",\n", json_line("confusion", [&](JsonWriter& j) { write_pairs(j, metrics, ids); }), ",\n",
      json_line("confident_wrong",
                [&](JsonWriter& j) { write_image_ids(j, examples.confident_wrong); }),
      ",\n",
      json_line("most_confused", [&](JsonWriter& j) { write_most_confused(j, examples, ids); }),
      ",\n", json_line("images", [&](JsonWriter& j) { write_shown(j, examples, ids, file_names); }),
      "\n}\n");
}

}  // namespace retina
