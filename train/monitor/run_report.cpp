#include "train/monitor/run_report.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/measure.h"
#include "shared/evaluation/score/metrics_text.h"

namespace retina {
namespace {

using Steps = std::vector<StepMetrics>;

constexpr std::size_t kCurvePoints = 2000;  // more would only make the page heavy
constexpr double kSmoothedSteps = 20;

// A line over the steps.
struct Line {
  std::string name{};
  std::function<double(const StepMetrics&)> value{};
};

enum class Shown { kSmoothed, kEachStep, kBoth };  // kBoth: each step of the first line, faint

struct StepCurve {
  std::string title{}, unit{};
  std::vector<Line> lines{};
  Shown shown = Shown::kSmoothed;
};

// Returns the curves that have a value for each step. A curve without lines is not shown.
std::vector<StepCurve> step_curves(Task task, bool has_traffic, bool has_scale) {
  // The task's loss, with its parts if it has several, and its accuracies.
  std::vector<Line> losses = {{"loss", [](const auto&m) { return m.loss(); }}}, accuracies;
  const auto& values = task_metrics(task);
  for (std::size_t i = 0; i < values.size(); ++i) {
    (values[i].is_loss ? losses : accuracies).push_back({values[i].label, [i](const auto& m) {
                                                           return m.values[i];
                                                         }});
  }
  if (losses.size() == 2) losses.pop_back();
  // The parts of a step's time.
  const auto part = [](const char* name, double PartTimes::*ms) {
    return Line{name, [ms](const auto& m) { return m.parts.*ms; }};
  };
  std::vector<StepCurve> curves = {
      {"Training loss", "loss", losses, Shown::kBoth},
      {"Training accuracy", "share of the images", accuracies},
      {"Learning rate",
       "at each step",
       {{"lr", [](const auto& m) { return m.learning_rate; }}},
       Shown::kEachStep},
      {"Throughput",
       "images per second",
       {{"images/s", [](const auto& m) { return m.images_per_second; }}},
       Shown::kBoth},
      {"Time per step, rank 0",
       "ms",
       {{"whole", [](const auto& m) { return m.step_ms; }},
        {"computing", [](const auto& m) { return m.compute_ms(); }},
        {"waiting for data", [](const auto& m) { return m.data_wait_ms; }},
        {"waiting for gradients", [](const auto& m) { return m.exposed_comm_ms; }}}},
      {"Computing, rank 0",
       "ms",
       {part("upload", &PartTimes::upload_ms), part("forward", &PartTimes::forward_ms),
        part("loss", &PartTimes::loss_ms), part("backward", &PartTimes::backward_ms),
        part("update", &PartTimes::update_ms)}}};
  if (has_scale) {
    curves.push_back({"Loss scale",
                      "of fp16; a step that overflows halves it",
                      {{"scale", [](const auto& m) { return m.loss_scale; }}},
                      Shown::kEachStep});
  }
  if (has_traffic) {
    curves.push_back({"Bandwidth of the gradients' all-reduce",
                      "MB/s by nccl-tests' formulas",
                      {{"bus",
                        [](const auto& m) {
                          return all_reduce_bus_bandwidth(m.reduce.traffic, m.ranks) * 1e-6;
                        }},
                       {"algorithm", [](const auto& m) {
                          return algorithm_bandwidth(m.reduce.traffic) * 1e-6;
                        }}}});
  }
  return curves;
}

// Returns marks where a continuation gave the run another length.
std::vector<CurveMark> marks_of(const MetricsLog& log) {
  std::vector<CurveMark> marks;
  for (const LengthChange& change : log.length_changes()) {
    marks.push_back({.x = static_cast<double>(change.step),
                     .text = cat("now ", counted(change.total_steps, "step"))});
  }
  return marks;
}

// Draws a curve; long runs are thinned evenly.
Curve drawn(const StepCurve& what, const Steps& steps) {
  Curve curve{.title = what.title, .x_label = "step", .y_label = what.unit, .from_zero = true};
  const std::size_t stride = std::max<std::size_t>(1, steps.size() / kCurvePoints);
  for (const Line& line : what.lines) {
    Series series{.name = line.name};
    for (std::size_t i = 0; i < steps.size(); i += stride) {
      series.xs.push_back(static_cast<double>(steps[i].step));
      series.ys.push_back(line.value(steps[i]));
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

// Adds the validation loss to the training loss `curve`: where the two diverge, the run overfits.
void add_validation_loss(Curve& curve, const std::vector<ValidationMetrics>& validations) {
  Series series{.name = "validation", .points = true};
  for (const ValidationMetrics& item : validations) {
    series.xs.push_back(static_cast<double>(item.step));
    series.ys.push_back(total_loss(item.task, item.losses));
  }
  if (series.xs.empty()) return;
  curve.title = "Training and validation loss";
  curve.series.push_back(std::move(series));
}

Curve validation_curve(const std::vector<ValidationMetrics>& validations) {
  const Task task = validations.back().task;
  Curve curve{.title = "Validation",
              .x_label = "step",
              .y_label = task == Task::kDetection ? "average precision" : "accuracy",
              .from_zero = true};
  for (const auto& [name, place] : shown_metrics(task)) {
    Series series{.name = name, .points = true};
    for (const auto& item : validations) {
      series.xs.push_back(static_cast<double>(item.step));
      series.ys.push_back(std::max(0.0, item.values[place]));
    }
    curve.series.push_back(std::move(series));
  }
  return curve;
}

// Returns the headlines: validations, speed, the parts of the median step's time, the length of an
// epoch.
std::vector<Headline> headlines(const MetricsLog& log, bool has_traffic) {
  std::vector<Headline> list;
  if (const auto& validations = log.validations(); !validations.empty()) {
    const auto best =
        std::max_element(validations.begin(), validations.end(),
                         [](const auto& a, const auto& b) { return a.judged() < b.judged(); });
    const ValidationMetrics& last = validations.back();
    const ShownMetrics& shown = shown_metrics(last.task);
    for (std::size_t i = 0; i < 2; ++i) {
      list.push_back(
          {shown[i].first, metric_text(last.values[shown[i].second]), cat("at step ", last.step)});
    }
    list.push_back({cat("best ", shown.front().first), metric_text(best->judged()),
                    cat("at step ", best->step)});
  }
  // Speed, and the shares of a step's time that are lost to waiting.
  const auto median_of = [&](const auto& value) {
    std::vector<double> values;
    for (const StepMetrics& one : log.steps()) values.push_back(value(one));
    return fixed(median(values), 1);
  };
  const auto percent_of_step = [&](const char* name, double StepMetrics::*ms) {
    list.push_back(
        {name,
         cat(median_of([ms](const auto& m) { return m.*ms / std::max(m.step_ms, 1e-9) * 100; }),
             " %"),
         "of the median step"});
  };
  list.push_back(
      {"images/s", median_of([](const auto& m) { return m.images_per_second; }), "median step"});
  percent_of_step("waiting for data", &StepMetrics::data_wait_ms);
  if (has_traffic) percent_of_step("waiting for gradients", &StepMetrics::exposed_comm_ms);
  const Steps& steps = log.steps();
  // A micro-batch that shrank, since it slows the run.
  const auto most = std::max_element(steps.begin(), steps.end(), [](const auto& a, const auto& b) {
    return a.micro_batch < b.micro_batch;
  });
  if (most != steps.end() && steps.back().micro_batch < most->micro_batch) {
    list.push_back({"images at a time", cat(steps.back().micro_batch),
                    cat("of a rank; ", most->micro_batch, " at step ", most->step,
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

std::string run_report_html(const RunReportInput& input, const MetricsLog& log) {
  const Steps& steps = log.steps();
  const bool has_traffic = std::any_of(steps.begin(), steps.end(),
                                       [](const auto& m) { return m.reduce.traffic.bytes > 0; });
  const bool has_scale =
      std::any_of(steps.begin(), steps.end(), [](const auto& m) { return m.loss_scale > 0; });
  Report report{
      .title = input.title,
      .subtitle = cat(steps.empty() ? 0 : steps.back().step, " of ",
                      counted(input.total_steps, "step"), ", ", counted(input.rank_count, "rank")),
      .metrics = headlines(log, has_traffic),
      .settings = settings_of(input.options)};
  if (!log.validations().empty()) report.curves.push_back(validation_curve(log.validations()));
  const Task task = steps.empty() ? Task::kDetection : steps.back().task;
  const std::size_t loss = report.curves.size();  // the first of the steps' curves
  for (const StepCurve& curve : step_curves(task, has_traffic, has_scale)) {
    if (!curve.lines.empty()) report.curves.push_back(drawn(curve, steps));
  }
  add_validation_loss(report.curves[loss], log.validations());
  for (Curve& curve : report.curves) curve.marks = marks_of(log);
  const auto ranks = std::find_if(log.epochs().rbegin(), log.epochs().rend(),
                                  [](const auto& m) { return !m.rank_times.empty(); });
  if (ranks != log.epochs().rend()) {
    report.tables.push_back(rank_table(ranks->rank_times, ranks->step_count));
  }
  if (!input.classes.rows.empty()) report.tables.push_back(input.classes);
  report.galleries.push_back(input.gallery);
  return render_report(report);
}

}  // namespace retina
