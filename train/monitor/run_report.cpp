#include "train/monitor/run_report.h"

#include <algorithm>

#include "shared/base/cat.h"
#include "shared/base/measure.h"
#include "shared/evaluation/explain/metrics_text.h"

namespace retina {
namespace {

constexpr std::size_t kCurvePoints = 2000;  // more would only make the page heavy

// One curve over steps; long runs are thinned evenly.
template <class F>
Series step_series(const std::string& name, const std::vector<StepMetrics>& steps, const F& value) {
  Series series{.name = name};
  const std::size_t stride = std::max<std::size_t>(1, steps.size() / kCurvePoints);
  for (std::size_t i = 0; i < steps.size(); i += stride) {
    series.xs.push_back(static_cast<double>(steps[i].step));
    series.ys.push_back(value(steps[i]));
  }
  return series;
}

Task task_of(const std::vector<StepMetrics>& steps) {
  return steps.empty() ? Task::kDetection : steps.back().task;
}

Curve loss_curve(const std::vector<StepMetrics>& steps) {
  Series raw = step_series("loss", steps, [](const auto& m) { return m.loss(); });
  Series smooth = raw;
  raw.name = "each step";
  raw.faint = true;
  smooth.ys = smoothed(smooth.ys, 20);
  std::vector<Series> series = {raw, smooth};
  const auto& values = task_metrics(task_of(steps));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i].is_loss) continue;
    Series part = step_series(values[i].label, steps, [i](const auto& m) { return m.values[i]; });
    part.ys = smoothed(part.ys, 20);
    if (part.ys != smooth.ys) series.push_back(std::move(part));  // a loss of one part is that part
  }
  return {.title = "Training loss",
          .x_label = "step",
          .y_label = "loss (mean of about 20 steps)",
          .series = std::move(series),
          .from_zero = true};
}

// What a step is judged by besides its loss. Without series: nothing.
Curve accuracy_curve(const std::vector<StepMetrics>& steps) {
  Curve curve{.title = "Training accuracy",
              .x_label = "step",
              .y_label = "share of the images (mean of about 20 steps)",
              .from_zero = true};
  const auto& values = task_metrics(task_of(steps));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].is_loss) continue;
    curve.series.push_back(
        step_series(values[i].label, steps, [i](const auto& m) { return m.values[i]; }));
    curve.series.back().ys = smoothed(curve.series.back().ys, 20);
  }
  return curve;
}

// Where the time of rank 0's steps goes.
Curve time_curve(const std::vector<StepMetrics>& steps) {
  Curve curve{
      .title = "Time per step, rank 0",
      .x_label = "step",
      .y_label = "ms (mean of about 20 steps)",
      .series = {step_series("whole", steps, [](const auto& m) { return m.step_ms; }),
                 step_series("computing", steps, [](const auto& m) { return m.compute_ms(); }),
                 step_series("waiting for data", steps,
                             [](const auto& m) { return m.data_wait_ms; }),
                 step_series("waiting for sums", steps,
                             [](const auto& m) { return m.exposed_comm_ms; })},
      .from_zero = true};
  for (Series& series : curve.series) series.ys = smoothed(series.ys, 20);
  return curve;
}

// What computing consists of.
Curve parts_curve(const std::vector<StepMetrics>& steps) {
  const auto part = [&](const char* name, double PartTimes::*ms) {
    return step_series(name, steps, [ms](const auto& m) { return m.parts.*ms; });
  };
  Curve curve{
      .title = "Computing, rank 0",
      .x_label = "step",
      .y_label = "ms (mean of about 20 steps)",
      .series = {part("upload", &PartTimes::upload_ms), part("forward", &PartTimes::forward_ms),
                 part("loss", &PartTimes::loss_ms), part("backward", &PartTimes::backward_ms),
                 part("update", &PartTimes::update_ms)},
      .from_zero = true};
  for (Series& series : curve.series) series.ys = smoothed(series.ys, 20);
  return curve;
}

// nccl-tests' bandwidths of the gradients' all-reduce, in MB/s.
Curve bandwidth_curve(const std::vector<StepMetrics>& steps) {
  Series bus = step_series("bus", steps, [](const auto& m) {
    return all_reduce_bus_bandwidth(m.reduce.traffic, m.ranks) * 1e-6;
  });
  Series algorithm = step_series("algorithm", steps, [](const auto& m) {
    return algorithm_bandwidth(m.reduce.traffic) * 1e-6;
  });
  bus.ys = smoothed(bus.ys, 20);
  algorithm.ys = smoothed(algorithm.ys, 20);
  return {.title = "Bandwidth of the gradients' all-reduce",
          .x_label = "step",
          .y_label = "MB/s (nccl-tests' formulas)",
          .series = {bus, algorithm},
          .from_zero = true};
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

}  // namespace

std::string run_report_html(const RunReportInput& input, const MetricsLog& log) {
  Report report{.title = input.title};
  const auto& steps = log.steps();
  const auto& validations = log.validations();
  const std::int64_t done = steps.empty() ? 0 : steps.back().step;
  report.subtitle = cat(done, " of ", counted(input.total_steps, "step"), ", ",
                        counted(input.rank_count, "rank"));
  // Figures: of validations, speed, where the time goes.
  if (!validations.empty()) {
    const auto best =
        std::max_element(validations.begin(), validations.end(),
                         [](const auto& a, const auto& b) { return a.judged() < b.judged(); });
    const ValidationMetrics& last = validations.back();
    const ShownMetrics& shown = shown_metrics(last.task);
    for (std::size_t i = 0; i < 2; ++i) {
      report.metrics.push_back(
          {shown[i].first, metric_text(last.values[shown[i].second]), cat("at step ", last.step)});
    }
    report.metrics.push_back({cat("best ", shown.front().first), metric_text(best->judged()),
                              cat("at step ", best->step)});
  }
  std::vector<double> rates, waits, comm_waits;
  for (const auto& item : steps) {
    rates.push_back(item.images_per_second);
    waits.push_back(item.data_wait_ms / std::max(item.step_ms, 1e-9) * 100);
    comm_waits.push_back(item.exposed_comm_ms / std::max(item.step_ms, 1e-9) * 100);
  }
  report.metrics.push_back({"images/s", fixed(median(rates), 1), "median step"});
  report.metrics.push_back(
      {"waiting for data", cat(fixed(median(waits), 1), " %"), "of the median step"});
  const bool has_traffic = std::any_of(steps.begin(), steps.end(),
                                       [](const auto& m) { return m.reduce.traffic.bytes > 0; });
  if (has_traffic) {
    report.metrics.push_back(
        {"waiting for sums", cat(fixed(median(comm_waits), 1), " %"), "of the median step"});
  }
  const auto epoch = std::find_if(log.epochs().rbegin(), log.epochs().rend(),
                                  [](const auto& m) { return m.epoch_seconds.has_value(); });
  if (epoch != log.epochs().rend()) {
    report.metrics.push_back(
        {"an epoch", human_seconds(*epoch->epoch_seconds),
         cat(counted(epoch->images_per_epoch, "image"), ", epoch ", epoch->epoch)});
  }
  // Curves over steps.
  if (!validations.empty()) report.curves.push_back(validation_curve(validations));
  report.curves.push_back(loss_curve(steps));
  if (Curve curve = accuracy_curve(steps); !curve.series.empty()) {
    report.curves.push_back(std::move(curve));
  }
  report.curves.push_back(
      {.title = "Learning rate",
       .x_label = "step",
       .y_label = "learning rate",
       .series = {step_series("lr", steps, [](const auto& m) { return m.learning_rate; })},
       .from_zero = true});
  Series rate = step_series("each step", steps, [](const auto& m) { return m.images_per_second; });
  Series smooth_rate = rate;
  rate.faint = true;
  smooth_rate.name = "images/s";
  smooth_rate.ys = smoothed(smooth_rate.ys, 20);
  report.curves.push_back({.title = "Throughput",
                           .x_label = "step",
                           .y_label = "images per second",
                           .series = {rate, smooth_rate},
                           .from_zero = true});
  report.curves.push_back(time_curve(steps));
  report.curves.push_back(parts_curve(steps));
  if (has_traffic) report.curves.push_back(bandwidth_curve(steps));
  // Tables, images, settings.
  const auto ranks = std::find_if(log.epochs().rbegin(), log.epochs().rend(),
                                  [](const auto& m) { return !m.rank_times.empty(); });
  if (ranks != log.epochs().rend()) {
    report.tables.push_back(rank_table(ranks->rank_times, ranks->step_count));
  }
  if (!input.classes.rows.empty()) report.tables.push_back(input.classes);
  if (!input.gallery.images.empty()) report.galleries.push_back(input.gallery);
  for (const auto& option : input.options) report.settings.emplace_back(option.name, option.json);
  return render_report(report);
}

}  // namespace retina
