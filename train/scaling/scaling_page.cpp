// The page of a scaling report.
#include "shared/base/cat.h"
#include "shared/report/report.h"
#include "train/scaling/scaling_report.h"

namespace retina {
namespace {

std::string percent(double share) {
  return fixed(share * 100, 1) + " %";
}
std::string rate_text(double rate) {
  return fixed(rate, rate < 100 ? 2 : 0);
}
std::string milliseconds(double seconds) {
  return fixed(seconds * 1e3, 1);
}

// Returns the length of an epoch, which speed tests make short.
std::string epoch_text(double seconds) {
  if (seconds >= 60) return human_seconds(seconds);
  return fixed(seconds, seconds < 1 ? 3 : seconds < 10 ? 2 : 1) + " s";
}

double epoch_seconds(const ScalingData& data, const ScalingRun& run) {
  return data.images_per_epoch / run.images_per_second;
}

Table measured_table(const ScalingData& data) {
  Table table{.title = "Measured",
              .columns = {"ranks", "nodes", "images/s", "efficiency", "step ms", "own ms",
                          "waits for gradients ms", "an epoch"},
              .note = cat("Medians; ", counted(data.images_per_rank, "image"),
                          " per rank and step, an epoch of ", shortest(data.images_per_epoch),
                          " images. Own: computing and waiting for data, of the slowest rank. "
                          "Efficiency: images/s per rank over those with ",
                          counted(data.runs.front().ranks, "rank"), "."),
              .wide = true};
  for (const ScalingRun& run : data.runs) {
    table.rows.push_back({cat(run.ranks), cat(run.nodes), rate_text(run.images_per_second),
                          percent(efficiency(data, run)), milliseconds(run.step_seconds),
                          milliseconds(run.own_seconds), milliseconds(run.exposed_seconds()),
                          epoch_text(epoch_seconds(data, run))});
  }
  return table;
}

// Adds measured points and perfect scaling to `chart`.
template <class Measured, class Perfect>
Curve curve(const ScalingData& data, Curve chart, const Measured& measured,
            const Perfect& perfect) {
  Series points{.name = "measured", .points = true}, ideal{.name = "perfect"};
  for (const ScalingRun& run : data.runs) {
    for (Series* series : {&points, &ideal}) series->xs.push_back(run.ranks);
    points.ys.push_back(measured(run));
    ideal.ys.push_back(perfect(run.ranks));
  }
  chart.x_label = "ranks";
  chart.log_x = true;
  chart.series = {points, ideal};
  return chart;
}

// Returns notes on the lost time where more ranks gained less than they should.
std::vector<std::string> notes(const ScalingData& data) {
  const ScalingRun &first = data.runs.front(), &last = data.runs.back();
  if (first.ranks == last.ranks) {
    return {
        "One number of ranks: run the same command under mpirun on others, with the same number of "
        "images per rank, into the same folder."};
  }
  constexpr double kNoticeable = 0.1;
  if (last.own_seconds <= first.own_seconds * (1 + kNoticeable)) return {};
  return {cat("A rank's own time grows from ", milliseconds(first.own_seconds), " ms with ",
              counted(first.ranks, "rank"), " to ", milliseconds(last.own_seconds), " ms with ",
              last.ranks,
              ": the ranks share something besides the network, such as cores, memory bandwidth or "
              "storage.")};
}

}  // namespace

std::string scaling_html(const ScalingData& data) {
  const ScalingRun &first = data.runs.front(), &last = data.runs.back();
  const double base_rate = first.images_per_second / first.ranks;
  Report report{
      .title = "retina-train: scaling",
      .subtitle =
          cat("Measured on ", counted(data.runs.size(), "number"), " of ranks, up to ", last.ranks,
              "; ", counted(data.images_per_rank, "image"), " per rank and step"),
      .metrics = {{"images/s", rate_text(last.images_per_second), counted(last.ranks, "rank")},
                  {"efficiency", percent(efficiency(data, last)),
                   cat(last.ranks, " against ", first.ranks)},
                  {"an epoch", epoch_text(epoch_seconds(data, last)),
                   cat(shortest(data.images_per_epoch), " images")}},
      .tables = {measured_table(data)},
      .notes = notes(data)};
  report.curves = {
      curve(
          data, {.title = "Throughput", .y_label = "images per second", .log_y = true},
          [](const ScalingRun& run) { return run.images_per_second; },
          [&](int ranks) { return base_rate * ranks; }),
      curve(
          data, {.title = "Efficiency", .y_label = "% of perfect", .from_zero = true},
          [&](const ScalingRun& run) { return efficiency(data, run) * 100; },
          [](int) { return 100.0; }),
      curve(
          data, {.title = "Length of an epoch", .y_label = "s", .log_y = true},
          [&](const ScalingRun& run) { return epoch_seconds(data, run); },
          [&](int ranks) { return data.images_per_epoch / base_rate / ranks; }),
      curve(
          data, {.title = "Waiting for gradients", .y_label = "ms of a step", .from_zero = true},
          [](const ScalingRun& run) { return run.exposed_seconds() * 1e3; },
          [](int) { return 0.0; })};
  report.settings.assign(data.setup.begin(), data.setup.end());
  return render_report(report);
}

}  // namespace retina
