#include "train/report/run_report.h"

#include <algorithm>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/measure.h"
#include "shared/evaluation/score/metrics_text.h"

namespace retina {
namespace {

constexpr std::size_t kCurvePoints = 2000;  // more would only make the page heavy
constexpr double kSmoothedSteps = 20;

// The name of a line over the steps, and its key in the log.
using Line = std::pair<std::string, std::string>;

enum class Shown { kSmoothed, kEachStep, kBoth };  // kBoth: each step of the first line, faint

struct StepCurve {
  std::string title{}, unit{};
  std::vector<Line> lines{};
  Shown shown = Shown::kSmoothed;
  double factor = 1;  // of the values
};

// Returns the values of `key`; none before the first line that has it.
std::vector<double> column(const Columns& columns, const std::string& key) {
  const auto found = columns.find(key);
  return found == columns.end() ? std::vector<double>{} : found->second;
}

bool any_positive(const Columns& columns, const std::string& key) {
  const std::vector<double> values = column(columns, key);
  return std::any_of(values.begin(), values.end(), [](double value) { return value > 0; });
}

Task task_of(const Columns& columns) {
  const Task other = Task::kClassification;
  return columns.contains(task_metrics(other).front().key) ? other : Task::kDetection;
}

std::string at_step(double step) {
  return cat("at step ", fixed(step, 0));
}

// Returns the curves that have a value for each step.
std::vector<StepCurve> step_curves(const Columns& steps) {
  // The task's loss, with its parts if it has several, and its accuracies.
  std::vector<Line> losses = {{"loss", "loss"}}, accuracies;
  for (const TaskMetric& metric : task_metrics(task_of(steps))) {
    (metric.is_loss ? losses : accuracies).emplace_back(metric.label, metric.key);
  }
  if (losses.size() == 2) losses.pop_back();
  std::vector<StepCurve> curves = {{"Training loss", "loss", losses, Shown::kBoth}};
  if (!accuracies.empty()) {
    curves.push_back({"Training accuracy", "share of the images", accuracies});
  }
  curves.insert(
      curves.end(),
      {{"Learning rate", "at each step", {{"lr", "lr"}}, Shown::kEachStep},
       {"Throughput", "images per second", {{"images/s", "images_per_second"}}, Shown::kBoth},
       {"Time per step, rank 0",
        "ms",
        {{"whole", "step_ms"},
         {"computing", "compute_ms"},
         {"waiting for data", "data_wait_ms"},
         {"waiting for gradients", "exposed_comm_ms"}}},
       {"Computing, rank 0",
        "ms",
        {{"upload", "upload_ms"},
         {"forward", "forward_ms"},
         {"loss", "loss_ms"},
         {"backward", "backward_ms"},
         {"update", "update_ms"}}}});
  if (any_positive(steps, "loss_scale")) {
    curves.push_back({"Loss scale",
                      "of fp16; a step that overflows halves it",
                      {{"scale", "loss_scale"}},
                      Shown::kEachStep});
  }
  if (any_positive(steps, "comm_bytes")) {
    curves.push_back(
        {"Bandwidth of the gradients' all-reduce",
         "MB/s by nccl-tests' formulas",
         {{"bus", "bus_bytes_per_second"}, {"algorithm", "algorithm_bytes_per_second"}},
         Shown::kSmoothed,
         1e-6});
  }
  return curves;
}

// Draws a curve; long runs are thinned evenly.
Curve drawn(const StepCurve& what, const Columns& steps) {
  Curve curve{.title = what.title, .x_label = "step", .y_label = what.unit, .from_zero = true};
  const std::vector<double> numbers = column(steps, "step");
  const std::size_t stride = std::max<std::size_t>(1, numbers.size() / kCurvePoints);
  for (const auto& [name, key] : what.lines) {
    Series series{.name = name};
    const std::vector<double> values = column(steps, key);
    for (std::size_t i = 0; i < values.size(); i += stride) {
      series.xs.push_back(numbers[i]);
      series.ys.push_back(values[i] * what.factor);
    }
    if (what.shown == Shown::kBoth && curve.series.empty()) {
      curve.series.push_back(series);
      curve.series.back().name = "each step";
      curve.series.back().faint = true;
    }
    if (what.shown != Shown::kEachStep) series.ys = smoothed(series.ys, kSmoothedSteps);
    curve.series.push_back(std::move(series));
  }
  if (what.shown != Shown::kEachStep)
    curve.y_label += cat(" (mean of about ", kSmoothedSteps, " steps)");
  return curve;
}

Series validation_series(const Columns& validations, const Line& line) {
  return {.name = line.first,
          .xs = column(validations, "step"),
          .ys = column(validations, line.second),
          .points = true};
}

Curve validation_curve(const Columns& validations) {
  const Task task = task_of(validations);
  Curve curve{.title = "Validation",
              .x_label = "step",
              .y_label = task == Task::kDetection ? "average precision" : "accuracy",
              .from_zero = true,
              .y_reaches = .1};
  for (const auto& [name, key] : shown_metrics(task)) {
    Series& series = curve.series.emplace_back(validation_series(validations, {name, key}));
    for (double& value : series.ys) value = std::max(0.0, value);
  }
  return curve;
}

// Returns the headlines: validations, speed, the parts of the median step's time, the length of an
// epoch.
std::vector<Headline> headlines(const MetricsLog& log) {
  std::vector<Headline> list;
  if (const Columns& validations = log.validations(); !validations.empty()) {
    const ShownMetrics& shown = shown_metrics(task_of(validations));
    const std::vector<double> numbers = column(validations, "step"),
                              judged = column(validations, shown.front().second);
    for (std::size_t i = 0; i < 2; ++i) {
      list.push_back({shown[i].first, metric_text(column(validations, shown[i].second).back()),
                      at_step(numbers.back())});
    }
    const auto best = std::max_element(judged.begin(), judged.end());
    list.push_back({cat("best ", shown.front().first), metric_text(*best),
                    at_step(numbers[static_cast<std::size_t>(best - judged.begin())])});
  }
  // Speed, and the shares of a step's time that are lost to waiting.
  const Columns& steps = log.steps();
  const std::vector<double> step_ms = column(steps, "step_ms");
  const auto percent_of_step = [&](const char* name, const char* key) {
    std::vector<double> shares = column(steps, key);
    for (std::size_t i = 0; i < shares.size(); ++i) shares[i] *= 100 / std::max(step_ms[i], 1e-9);
    list.push_back({name, cat(fixed(median(std::move(shares)), 1), " %"), "of the median step"});
  };
  list.push_back({"images/s", fixed(median(column(steps, "images_per_second")), 1), "median step"});
  percent_of_step("waiting for data", "data_wait_ms");
  if (any_positive(steps, "comm_bytes"))
    percent_of_step("waiting for gradients", "exposed_comm_ms");
  // A micro-batch that shrank, since it slows the run.
  const std::vector<double> images = column(steps, "micro_batch");
  const auto most = std::max_element(images.begin(), images.end());
  if (most != images.end() && images.back() < *most) {
    const auto place = static_cast<std::size_t>(most - images.begin());
    list.push_back({"images at a time", fixed(images.back(), 0),
                    cat("of a rank; ", fixed(*most, 0), " ", at_step(column(steps, "step")[place]),
                        ", for lack of memory or by --micro-batch")});
  }
  // The last whole epoch.
  const auto epoch = std::find_if(log.epochs().rbegin(), log.epochs().rend(),
                                  [](const auto& m) { return m.epoch_seconds.has_value(); });
  if (epoch != log.epochs().rend()) {
    list.push_back({"an epoch", human_seconds(*epoch->epoch_seconds),
                    cat(counted(epoch->images_per_epoch, "image"), ", epoch ", epoch->epoch)});
  }
  return list;
}

}  // namespace

TrainingCourse course_of(const MetricsLog& log, std::int64_t total_steps) {
  TrainingCourse course{.total_steps = total_steps};
  const Columns& validations = log.validations();
  course.steps = column(validations, "step");
  course.aps = column(validations, shown_metrics(Task::kDetection).front().second);
  course.losses = column(validations, "loss");
  const std::vector<double> losses = smoothed(column(log.steps(), "loss"), kSmoothedSteps);
  if (losses.empty()) return course;
  course.first_loss = losses[std::min<std::size_t>(losses.size() - 1, 9)];
  course.last_loss = losses.back();
  return course;
}

std::string run_report_html(const RunReportInput& input, const MetricsLog& log) {
  const Columns &steps = log.steps(), &validations = log.validations();
  const std::vector<double> numbers = column(steps, "step");
  Report report{
      .title = input.title,
      .subtitle = cat(numbers.empty() ? "0" : fixed(numbers.back(), 0), " of ",
                      counted(input.total_steps, "step"), ", ", counted(input.rank_count, "rank")),
      .metrics = headlines(log),
      .findings = {},
      .settings = settings_of(input.options)};
  if (!input.verdict.empty()) report.findings.push_back({.text = input.verdict});
  // The validation's loss beside training's: where the two diverge, the run overfits.
  for (const StepCurve& curve : step_curves(steps)) report.curves.push_back(drawn(curve, steps));
  if (!validations.empty()) {
    const bool is_detector = task_of(validations) == Task::kDetection;
    report.curves.front().title = "Training and validation loss";
    report.curves.front().series.push_back(validation_series(
        validations,
        {"validation", is_detector ? "loss" : task_metrics(Task::kClassification).front().key}));
    report.curves.insert(report.curves.begin(), validation_curve(validations));
  }
  // Marks where a continuation gave the run another length.
  for (const LengthChange& change : log.length_changes()) {
    const CurveMark mark = {.x = static_cast<double>(change.step),
                            .text = cat("now ", counted(change.total_steps, "step"))};
    for (Curve& curve : report.curves) curve.marks.push_back(mark);
  }
  const auto ranks = std::find_if(log.epochs().rbegin(), log.epochs().rend(),
                                  [](const auto& m) { return !m.rank_times.empty(); });
  if (input.rank_count > 1 && ranks != log.epochs().rend()) {
    report.tables.push_back(rank_table(ranks->rank_times, ranks->step_count));
  }
  if (!input.classes.rows.empty()) report.tables.push_back(input.classes);
  report.galleries.push_back(input.gallery);
  return render_report(report);
}

}  // namespace retina
