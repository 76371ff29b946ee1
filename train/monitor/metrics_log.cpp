#include "train/monitor/metrics_log.h"

#include <cmath>
#include <cstring>
#include <iterator>
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
    json.key("stats").begin_array();
    for (const double value : m.values) json.value(value);
    json.end_array().field("count_best", std::int64_t{m.count_best});
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

StepMetrics step_from(const JsonView& line) {
  // A number that was not finite is stored as null.
  const auto number = [&](const char* key) {
    const JsonView value = line.at(key);
    return value.raw().IsNull() ? 0.0 : value.as_double();
  };
  const Task task = line.has(task_metrics(Task::kClassification).front().key)
                        ? Task::kClassification
                        : Task::kDetection;
  TaskMetrics values = {};
  for (std::size_t i = 0; i < task_metrics(task).size(); ++i) {
    values[i] = number(task_metrics(task)[i].key);
  }
  return {.step = line.at("step").as_int(),
          .epoch = line.at("epoch").as_int(),
          .task = task,
          .values = values,
          .learning_rate = number("lr"),
          .gradient_norm = number("grad_norm"),
          .loss_scale = line.has("loss_scale") ? number("loss_scale") : 0,
          .images_per_second = number("images_per_second"),
          .images = line.at("images").as_int(),
          .replaced_images = line.at("replaced_images").as_int(),
          .ranks = static_cast<int>(line.at("ranks").as_int()),
          .step_ms = number("step_ms"),
          .data_wait_ms = number("data_wait_ms"),
          .exposed_comm_ms = number("exposed_comm_ms"),
          .reduce = {.traffic = {.bytes = line.at("comm_bytes").as_int(),
                                 .seconds = number("comm_ms") * 1e-3},
                     .overlap_seconds = number("overlap_ms") * 1e-3},
          .checkpoint_ms = number("checkpoint_ms"),
          .memory_bytes = line.at("memory").as_int(),
          .parts = {.upload_ms = number("upload_ms"),
                    .forward_ms = number("forward_ms"),
                    .loss_ms = number("loss_ms"),
                    .backward_ms = number("backward_ms"),
                    .update_ms = number("update_ms")},
          .micro_batch = static_cast<int>(line.at("micro_batch").as_int()),
          .device_memory_bytes = line.at("device_memory").as_int()};
}

TaskMetrics losses_from(const JsonView& values, Task task) {
  TaskMetrics losses = {};
  for (std::size_t i = 0; i < task_metrics(task).size(); ++i) {
    const TaskMetric& metric = task_metrics(task)[i];
    if (!metric.is_loss) continue;
    const JsonView value = values.at(metric.key);
    losses[i] = value.raw().IsNull() ? std::numeric_limits<double>::quiet_NaN() : value.as_double();
  }
  return losses;
}

ValidationMetrics validation_from(const JsonView& line) {
  ValidationMetrics metrics{.step = line.at("step").as_int(), .epoch = line.at("epoch").as_int()};
  const JsonView values = line.at("validation");
  if (values.has("stats")) {
    for (std::size_t i = 0; i < kCocoStatCount; ++i) {
      metrics.values.push_back(values.at("stats").at(i).as_double());
    }
    metrics.count_best = static_cast<std::uint32_t>(values.at("count_best").as_int());
  } else {
    metrics.task = Task::kClassification;
    for (const char* key : kClassificationKeys) {
      metrics.values.push_back(values.at(key).as_double());
    }
  }
  metrics.losses = losses_from(values, metrics.task);
  return metrics;
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
  static const ShownMetrics kDetector = {{"AP", kAp}, {"AP50", kAp50}, {"AP75", kAp75}};
  static const ShownMetrics kClassifier = {{"top-1", 0}, {"top-5", 1}};
  return task == Task::kDetection ? kDetector : kClassifier;
}

std::vector<EventScalar> event_scalars(const StepMetrics& metrics) {
  std::vector<EventScalar> scalars;
  for (const LoggedMetric& metric : logged_metrics(metrics)) {
    const char* const name = std::strcmp(metric.key, "lr") == 0 ? "learning_rate" : metric.key;
    const auto number = [](auto value) { return static_cast<double>(value); };
    scalars.push_back({cat(metric.group, "/", name), std::visit(number, metric.value)});
  }
  return scalars;
}

std::vector<EventScalar> event_scalars(const ValidationMetrics& metrics) {
  std::vector<EventScalar> scalars;
  for (std::size_t i = 0; i < metrics.values.size(); ++i) {
    scalars.push_back({cat("validation/", key_of(metrics, i)), metrics.values[i]});
  }
  for (const auto& [key, value] : logged_losses(metrics)) {
    scalars.push_back({cat("validation/", key), value});
  }
  return scalars;
}

MetricsLog::MetricsLog(const std::string& path, std::int64_t step) {
  std::string kept;
  if (path_exists(path)) {
    const std::string text = read_file(path);
    std::istringstream lines(text.substr(0, text.rfind('\n') + 1));
    for (std::string line; std::getline(lines, line);) {
      const std::optional<JsonFile> parsed = parse_if_whole(line, path);
      if (!parsed) break;
      const JsonView root = parsed->root();
      if (root.at("step").as_int() > step) break;
      if (root.has("validation")) {
        validations_.push_back(validation_from(root));
      } else if (root.has("rank_times")) {
        epochs_.push_back(epoch_from(root));
      } else if (root.has(kLengthBefore)) {
        length_changes_.push_back(length_change_from(root));
      } else {
        steps_.push_back(step_from(root));
      }
      kept += line + "\n";
    }
    if (kept != text) write_file_atomically(path, kept);
  }
  file_.emplace(path);
}

void MetricsLog::append(const StepMetrics& metrics) {
  steps_.push_back(metrics);
  file_->append(to_json(metrics) + "\n");
}

void MetricsLog::append(const ValidationMetrics& metrics) {
  validations_.push_back(metrics);
  file_->append(to_json(metrics) + "\n");
}

void MetricsLog::append(const LengthChange& change) {
  if (!length_changes_.empty() && length_changes_.back() == change) return;
  length_changes_.push_back(change);
  file_->append(to_json(change) + "\n");
}

void MetricsLog::append(EpochMetrics metrics, std::int64_t update_count) {
  double seconds = 0;
  std::int64_t images = 0, lines = 0;
  for (const StepMetrics& step : steps_) {
    if (step.epoch != metrics.epoch) continue;
    seconds += step.step_ms * 1e-3;
    images += step.images;
    ++lines;
  }
  if (update_count > 0 && lines == update_count) {
    metrics.epoch_seconds = seconds;
    metrics.images_per_epoch = images;
  }
  epochs_.push_back(metrics);
  file_->append(to_json(metrics) + "\n");
}

}  // namespace retina
