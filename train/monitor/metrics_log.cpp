#include "train/monitor/metrics_log.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <utility>
#include <variant>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/evaluation/score/metrics.h"
#include "shared/evaluation/score/metrics_text.h"

namespace retina {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Part of the format; never rename.
constexpr const char* kClassificationKeys[] = {"top1", "top5", "loss"};

std::string key_of(const ValidationMetrics& metrics, std::size_t place) {
  return metrics.task == Task::kClassification ? kClassificationKeys[place]
                                               : stat_key(place, metrics.count_best);
}

// A metric of a step: its group in TensorBoard, its key in this file.
struct LoggedMetric {
  const char* group;
  const char* key;
  std::variant<std::int64_t, double> value;
};

// Returns the metrics of a step's line, in its order.
std::vector<LoggedMetric> logged_metrics(const StepMetrics& m) {
  std::vector<LoggedMetric> list = {{"train", "epoch", m.epoch}, {"train", "loss", m.loss()}};
  for (std::size_t i = 0; i < task_metrics(m.task).size(); ++i) {
    list.push_back({"train", task_metrics(m.task)[i].key, m.values[i]});
  }
  const OperationStats& traffic = m.reduce.traffic;
  list.insert(list.end(),
              {{"train", "lr", m.learning_rate},
               {"train", "grad_norm", m.gradient_norm},
               {"work", "images_per_second", m.images_per_second},
               {"train", "images", m.images},
               {"train", "replaced_images", m.replaced_images},
               {"work", "ranks", std::int64_t{m.ranks}},
               {"work", "step_ms", m.step_ms},
               {"work", "compute_ms", m.compute_ms()},
               {"work", "data_wait_ms", m.data_wait_ms},
               {"work", "exposed_comm_ms", m.exposed_comm_ms},
               {"work", "comm_ms", traffic.seconds * 1e3},
               {"work", "comm_bytes", traffic.bytes},
               {"work", "algorithm_bytes_per_second", algorithm_bandwidth(traffic)},
               {"work", "bus_bytes_per_second", all_reduce_bus_bandwidth(traffic, m.ranks)},
               {"work", "overlap_ms", m.reduce.overlap_seconds * 1e3},
               {"work", "checkpoint_ms", m.checkpoint_ms},
               {"work", "memory", m.memory_bytes},
               {"work", "upload_ms", m.parts.upload_ms},
               {"work", "forward_ms", m.parts.forward_ms},
               {"work", "loss_ms", m.parts.loss_ms},
               {"work", "backward_ms", m.parts.backward_ms},
               {"work", "update_ms", m.parts.update_ms},
               {"work", "device_memory", m.device_memory_bytes},
               {"work", "micro_batch", std::int64_t{m.micro_batch}}});
  if (m.loss_scale > 0) list.push_back({"train", "loss_scale", m.loss_scale});
  return list;
}

std::string to_json(const StepMetrics& m) {
  JsonWriter json;
  json.begin_object().field("step", m.step);
  for (const LoggedMetric& metric : logged_metrics(m)) {
    std::visit([&](auto value) { json.field(metric.key, value); }, metric.value);
  }
  return json.end_object().text();
}

// Returns the losses of a validation's line by their keys: those of a step's line, except that a
// classifier already has a "loss", which is without label smoothing.
std::vector<std::pair<const char*, double>> logged_losses(const ValidationMetrics& m) {
  std::vector<std::pair<const char*, double>> list;
  if (m.task == Task::kDetection) list.emplace_back("loss", total_loss(m.task, m.losses));
  const std::vector<TaskMetric>& metrics = task_metrics(m.task);
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    if (metrics[i].is_loss) list.emplace_back(metrics[i].key, m.losses[i]);
  }
  return list;
}

std::string to_json(const ValidationMetrics& m) {
  JsonWriter json;
  json.begin_object().field("step", m.step).field("epoch", m.epoch);
  json.key("validation").begin_object();
  const bool has_stats = m.task == Task::kDetection;
  const std::size_t named = has_stats ? kApLarge + 1 : m.values.size();
  for (std::size_t i = 0; i < named; ++i) json.field(key_of(m, i).c_str(), m.values[i]);
  for (const auto& [key, value] : logged_losses(m)) json.field(key, value);
  if (has_stats) {
    json.list("stats", m.values).field("count_best", std::int64_t{m.count_best});
  }
  return json.end_object().end_object().text();
}

std::string to_json(const EpochMetrics& m) {
  JsonWriter json;
  json.begin_object().field("step", m.step).field("epoch", m.epoch);
  if (m.epoch_seconds) {
    json.field("epoch_seconds", *m.epoch_seconds).field("images_per_epoch", m.images_per_epoch);
  }
  json.field("steps", m.step_count).key("rank_times").begin_array();
  for (const RankTimes& times : m.rank_times) json.raw(to_json(times));
  return json.end_array().end_object().text();
}

constexpr const char* kLengthBefore = "total_steps_before";

std::string to_json(const LengthChange& change) {
  JsonWriter json;
  json.begin_object().field("step", change.step).field("total_steps", change.total_steps);
  return json.field(kLengthBefore, change.total_steps_before).end_object().text();
}

LengthChange length_change_from(const JsonView& line) {
  return {.step = line.at("step").as_int(),
          .total_steps = line.at("total_steps").as_int(),
          .total_steps_before = line.at(kLengthBefore).as_int()};
}

// Adds the numbers of `line`, and of the object in it, as row number `row`.
void add_numbers(const rapidjson::Value& line, std::size_t row, Columns& columns) {
  for (const auto& [key, value] : line.GetObject()) {
    if (value.IsObject()) add_numbers(value, row, columns);
    if (!value.IsNumber() && !value.IsNull()) continue;
    std::vector<double>& column = columns[key.GetString()];
    column.resize(row, kNone);
    column.push_back(value.IsNumber() ? value.GetDouble() : kNone);
  }
}

void add_row(const JsonView& line, Columns& columns) {
  const std::size_t row = columns["step"].size();
  add_numbers(line.raw(), row, columns);
  for (auto& [key, column] : columns) column.resize(row + 1, kNone);
}

EpochMetrics epoch_from(const JsonView& line) {
  EpochMetrics metrics{.step = line.at("step").as_int(),
                       .epoch = line.at("epoch").as_int(),
                       .step_count = line.at("steps").as_int()};
  if (line.has("epoch_seconds")) {
    metrics.epoch_seconds = line.at("epoch_seconds").as_double();
    metrics.images_per_epoch = line.at("images_per_epoch").as_int();
  }
  const JsonView ranks = line.at("rank_times");
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    metrics.rank_times.push_back(rank_times_from(ranks.at(i)));
  }
  return metrics;
}

// Returns the line, or nothing when it is damaged: a machine that went down may leave a hole in the
// file. The rest of the file is lost, not the run.
std::optional<JsonFile> parse_if_whole(const std::string& line, const std::string& path) {
  try {
    // The parser would not see what follows a zero byte.
    if (line.find('\0') != std::string::npos) {
      throw Error(ErrorKind::kData, cat(path, ": a line holds zero bytes"));
    }
    return JsonFile::parse(line, path);
  } catch (const Error& error) {
    log_warning(error.what(), ": what follows is cut off");
    return std::nullopt;
  }
}

}  // namespace

std::string summary(const StepMetrics& metrics) {
  std::string values;
  for (std::size_t i = 0; i < task_metrics(metrics.task).size(); ++i) {
    const TaskMetric& metric = task_metrics(metrics.task)[i];
    if (metric.is_loss && metrics.values[i] == metrics.loss()) continue;  // the only loss
    values += cat(values.empty() ? "" : ", ", metric.label, " ", fixed(metrics.values[i], 3));
  }
  return cat("epoch ", metrics.epoch, ", loss ", fixed(metrics.loss(), 3), " (", values, "), lr ",
             shortest(std::round(metrics.learning_rate * 1e7) / 1e7), ", ",
             fixed(metrics.images_per_second, 1), " images/s");
}

const ShownMetrics& shown_metrics(Task task) {
  static const ShownMetrics kDetector = {{"AP", "AP"}, {"AP50", "AP50"}, {"AP75", "AP75"}};
  static const ShownMetrics kClassifier = {{"top-1", "top1"}, {"top-5", "top5"}};
  return task == Task::kDetection ? kDetector : kClassifier;
}

Scalars event_scalars(const StepMetrics& metrics) {
  Scalars scalars;
  for (const LoggedMetric& metric : logged_metrics(metrics)) {
    const char* const name = std::strcmp(metric.key, "lr") == 0 ? "learning_rate" : metric.key;
    const auto number = [](auto value) { return static_cast<double>(value); };
    scalars.push_back({cat(metric.group, "/", name), std::visit(number, metric.value)});
  }
  return scalars;
}

Scalars event_scalars(const ValidationMetrics& metrics) {
  Scalars scalars;
  for (std::size_t i = 0; i < metrics.values.size(); ++i) {
    scalars.push_back({cat("validation/", key_of(metrics, i)), metrics.values[i]});
  }
  for (const auto& [key, value] : logged_losses(metrics)) {
    scalars.push_back({cat("validation/", key), value});
  }
  return scalars;
}

MetricsLog::MetricsLog(const std::string& path, std::int64_t step) : path_(path) {
  std::string kept;
  if (path_exists(path)) {
    const std::string text = read_file(path);
    std::istringstream lines(text.substr(0, text.rfind('\n') + 1));
    for (std::string line; std::getline(lines, line);) {
      const std::optional<JsonFile> parsed = parse_if_whole(line, path);
      if (!parsed || parsed->root().at("step").as_int() > step) break;
      add(parsed->root());
      kept += line + "\n";
    }
    if (kept != text) write_file_atomically(path, kept);
  }
  file_.emplace(path);
}

void MetricsLog::add(const JsonView& line) {
  if (line.has("validation")) {
    add_row(line, validations_);
  } else if (line.has("rank_times")) {
    epochs_.push_back(epoch_from(line));
  } else if (line.has(kLengthBefore)) {
    length_changes_.push_back(length_change_from(line));
  } else {
    add_row(line, steps_);
  }
}

void MetricsLog::append_line(const std::string& json) {
  file_->append(json + "\n");
  add(JsonFile::parse(json, path_).root());
}

void MetricsLog::append(const StepMetrics& metrics) {
  append_line(to_json(metrics));
}

void MetricsLog::append(const ValidationMetrics& metrics) {
  append_line(to_json(metrics));
}

void MetricsLog::append(const LengthChange& change) {
  if (length_changes_.empty() || length_changes_.back() != change) append_line(to_json(change));
}

void MetricsLog::append(EpochMetrics metrics, std::int64_t update_count) {
  double seconds = 0;
  std::int64_t images = 0, lines = 0;
  for (std::size_t i = 0; i < steps_["epoch"].size(); ++i) {
    if (steps_["epoch"][i] != static_cast<double>(metrics.epoch)) continue;
    seconds += steps_["step_ms"][i] * 1e-3;
    images += static_cast<std::int64_t>(steps_["images"][i]);
    ++lines;
  }
  if (update_count > 0 && lines == update_count) {
    metrics.epoch_seconds = seconds;
    metrics.images_per_epoch = images;
  }
  append_line(to_json(metrics));
}

}  // namespace retina
