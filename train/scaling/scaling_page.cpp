// The page of a scaling report.
#include <algorithm>
#include <cmath>

#include "shared/base/cat.h"
#include "shared/base/counted.h"
#include "shared/report/report.h"
#include "train/scaling/scaling_projection.h"

namespace retina {
namespace {

constexpr int kMostRanks = 1024;
// Of a step's time, and of the efficiency: what is further off where it was measured says nothing
// of where it was not.
constexpr double kMostMisfit = 0.1;

std::string percent(double share) {
  return fixed(share * 100, 1) + " %";
}
std::string rate_text(double rate) {
  return fixed(rate, rate < 100 ? 2 : 0);
}
std::string milliseconds(double seconds) {
  return fixed(seconds * 1e3, 1);
}
std::string projected(const std::string& number) {
  return number + " projected";
}

// Speed tests have short epochs.
std::string epoch_text(double seconds) {
  if (seconds >= 60) return human_seconds(seconds);
  return fixed(seconds, seconds < 1 ? 3 : seconds < 10 ? 2 : 1) + " s";
}

// "at 2 ranks ..." as a sentence.
std::string sentence(std::string text) {
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text + ".";
}

Table measured_table(const ScalingData& data, const std::optional<ScalingModel>& model) {
  Table table{.title = "Measured",
              .columns = {"ranks", "nodes", "images/s", "efficiency", "step ms", "own ms",
                          "waits for sums ms", "model's ms", "an epoch"},
              .note = cat("Medians; ", counted(data.images_per_rank, "image"),
                          " per rank and step, an epoch of ", shortest(data.images_per_epoch),
                          " images. Own: computing and waiting for data, of the slowest rank. "
                          "Efficiency: images/s per rank over those with ",
                          counted(data.runs.front().point.ranks, "rank"), "."),
              .wide = true};
  for (const ScalingRun& run : data.runs) {
    const ScalingPoint& point = run.point;
    table.rows.push_back({cat(point.ranks), cat(run.nodes), rate_text(run.images_per_second),
                          percent(efficiency(data, run.images_per_second, point.ranks)),
                          milliseconds(point.step_seconds), milliseconds(point.own_seconds),
                          milliseconds(point.exposed_seconds()),
                          model ? milliseconds(model->exposed_seconds(point.ranks)) : "",
                          epoch_text(data.images_per_epoch / run.images_per_second)});
  }
  return table;
}

Table projected_table(const ScalingData& data, const ScalingModel& model) {
  Table table{.title = "Projected",
              .columns = {"ranks", "step ms", "images/s", "efficiency", "an epoch"},
              .note = "By the model below, not measured.",
              .wide = true};
  for (const Projection& one : projections(data, model)) {
    table.rows.push_back({cat(one.ranks), projected(milliseconds(one.step_seconds)),
                          projected(rate_text(one.images_per_second)),
                          projected(percent(one.efficiency)),
                          projected(epoch_text(one.epoch_seconds))});
  }
  return table;
}

// Measured points, the model's line and, where there is one, the line of perfect scaling.
template <class Measured, class Modelled, class Perfect>
Curve curve(const ScalingData& data, const std::optional<ScalingModel>& model,
            const std::string& title, const Measured& measured, const Modelled& modelled,
            const Perfect& perfect) {
  Series points{.name = "measured", .points = true};
  for (const ScalingRun& run : data.runs) {
    points.xs.push_back(run.point.ranks);
    points.ys.push_back(measured(run));
  }
  Curve result{.title = title, .x_label = "ranks", .series = {points}, .log_x = true};
  if (!model) return result;
  Series line{.name = "model (projected)"}, ideal{.name = "perfect"};
  for (const Projection& one : projections(data, *model)) {
    line.xs.push_back(one.ranks);
    line.ys.push_back(modelled(one));
    ideal.xs.push_back(one.ranks);
    ideal.ys.push_back(perfect(one.ranks));
  }
  result.series.insert(result.series.end(), {line, ideal});
  return result;
}

std::vector<std::string> notes(const ScalingData& data, const std::optional<ScalingModel>& model,
                               const std::string& misfit) {
  if (!model) {
    return {
        "The model needs a run on two ranks or more: run the same command under mpirun with the "
        "same number of images per rank into the same folder."};
  }
  double bytes = 0;
  for (const double bucket : model->bucket_bytes) bytes += bucket;
  const LinkCost& link = model->links.link;
  return {
      "step(n) = C + exposed(n); exposed(n) = max(ring(last bucket), sum of ring(bucket) - W) + "
      "ceil(log2 n) α; ring(b) = 2(n-1) α + 2(n-1)/n b/β (Thakur, Rabenseifner & Gropp 2005); "
      "exposed(1) = 0.",
      cat("C = ", milliseconds(model->own_seconds),
          " ms, a rank's own time. W = ", milliseconds(model->overlap_seconds),
          " ms in which backward computes on while buckets travel. ",
          counted(model->bucket_bytes.size(), "bucket"), ", ", human_bytes(bytes), " in all."),
      cat("α = ", fixed(link.latency_seconds * 1e6, 1),
          " µs and β = ", human_bytes(link.bytes_per_second),
          "/s are fitted to all-reduces measured in these runs; off by ",
          percent(model->links.median_relative_error), " in the median, ",
          percent(model->links.worst_relative_error), " at worst, ", model->links.left_out.size(),
          " of the sizes left out because they follow a different law.",
          data.sums_by_nccl
              ? " They are of the network between hosts, over which no gradient travels "
                "here: NCCL carries them, so the projection does not describe its links."
              : ""),
      !misfit.empty() ? cat("Nothing is projected to more ranks: the model does not describe these "
                            "runs. ",
                            sentence(misfit))
                      : cat("A projection holds where every link costs what those of the measured ",
                            counted(data.runs.back().nodes, "node"),
                            " cost. It does not account for ranks of unequal speed, links that "
                            "more ranks share, or "
                            "slower storage.")};
}

}  // namespace

std::vector<ScalingPoint> points_of(const ScalingData& data) {
  std::vector<ScalingPoint> points;
  for (const ScalingRun& run : data.runs) points.push_back(run.point);
  return points;
}

double efficiency(const ScalingData& data, double images_per_second, int ranks) {
  const ScalingRun& base = data.runs.front();
  return images_per_second / ranks / (base.images_per_second / base.point.ranks);
}

std::string misfit(const ScalingData& data, const ScalingModel& model) {
  const ScalingPoint& base = data.runs.front().point;
  const ScalingRun* worst_run = nullptr;
  double worst = kMostMisfit, worst_share = 0;
  for (const ScalingRun& run : data.runs) {
    const int ranks = run.point.ranks;
    const double modelled = model.step_seconds(ranks);
    const double share = model.step_seconds(base.ranks) / modelled;
    const double off = std::max(std::abs(modelled / run.point.step_seconds - 1),
                                std::abs(share - efficiency(data, run.images_per_second, ranks)));
    if (off <= worst) continue;
    worst = off;
    worst_share = share;
    worst_run = &run;
  }
  if (worst_run == nullptr) return "";
  const ScalingPoint& point = worst_run->point;
  std::string text =
      cat("at ", counted(point.ranks, "rank"), " a step takes ", milliseconds(point.step_seconds),
          " ms where the model says ", milliseconds(model.step_seconds(point.ranks)), " ms");
  if (data.runs.size() > 1) {
    text += cat(", an efficiency of ",
                percent(efficiency(data, worst_run->images_per_second, point.ranks)),
                " where it says ", percent(worst_share));
  }
  const ScalingPoint& most = data.runs.back().point;
  if (most.own_seconds > base.own_seconds * (1 + kMostMisfit)) {
    text += cat(". A rank's own time grows from ", milliseconds(base.own_seconds), " ms with ",
                counted(base.ranks, "rank"), " to ", milliseconds(most.own_seconds), " ms with ",
                most.ranks,
                ": the ranks share something besides the network, such as cores, memory "
                "bandwidth or storage");
  }
  return text;
}

std::vector<Projection> projections(const ScalingData& data, const ScalingModel& model) {
  std::vector<Projection> result;
  for (int ranks = 1; ranks <= kMostRanks; ranks *= 2) {
    const double seconds = model.step_seconds(ranks);
    const double rate = data.images_per_rank * ranks / seconds;
    result.push_back({.ranks = ranks,
                      .step_seconds = seconds,
                      .images_per_second = rate,
                      .efficiency = model.step_seconds(1) / seconds,
                      .epoch_seconds = data.images_per_epoch / rate});
  }
  return result;
}

std::string scaling_html(const ScalingData& data) {
  const auto model = fit_scaling(points_of(data));
  const std::string problem = model ? misfit(data, *model) : "";
  const auto projecting = problem.empty() ? model : std::nullopt;
  const ScalingRun &first = data.runs.front(), &last = data.runs.back();
  Report report{.title = "retina-train: scaling"};
  report.subtitle =
      cat("Measured on ", counted(data.runs.size(), "number"), " of ranks, up to ",
          last.point.ranks, "; ", shortest(data.images_per_rank), " images per rank and step");
  // Figures of the largest run, and the projection.
  report.figures.push_back(
      {"images/s", rate_text(last.images_per_second), counted(last.point.ranks, "rank")});
  report.figures.push_back({"efficiency",
                            percent(efficiency(data, last.images_per_second, last.point.ranks)),
                            cat(last.point.ranks, " against ", first.point.ranks)});
  report.figures.push_back({"an epoch", epoch_text(data.images_per_epoch / last.images_per_second),
                            cat(shortest(data.images_per_epoch), " images")});
  if (projecting) {
    const Projection most = projections(data, *projecting).back();
    report.figures.push_back(
        {"efficiency, projected", percent(most.efficiency), cat(most.ranks, " ranks, projected")});
  }
  // Curves: measured, modelled, perfect.
  const double base_rate = first.images_per_second / first.point.ranks;
  Curve rates = curve(
      data, projecting, "Throughput", [](const ScalingRun& run) { return run.images_per_second; },
      [](const Projection& one) { return one.images_per_second; },
      [&](int ranks) { return base_rate * ranks; });
  rates.y_label = "images per second";
  rates.log_y = true;
  Curve shares = curve(
      data, projecting, "Efficiency",
      [&](const ScalingRun& run) {
        return efficiency(data, run.images_per_second, run.point.ranks) * 100;
      },
      [](const Projection& one) { return one.efficiency * 100; }, [](int) { return 100.0; });
  shares.y_label = "% of perfect";
  shares.from_zero = true;
  Curve epochs = curve(
      data, projecting, "Length of an epoch",
      [&](const ScalingRun& run) { return data.images_per_epoch / run.images_per_second; },
      [](const Projection& one) { return one.epoch_seconds; },
      [&](int ranks) { return data.images_per_epoch / base_rate / ranks; });
  epochs.y_label = "s";
  epochs.log_y = true;
  Curve waits = curve(
      data, projecting, "Waiting for sums",
      [](const ScalingRun& run) { return run.point.exposed_seconds() * 1e3; },
      [&](const Projection& one) { return model->exposed_seconds(one.ranks) * 1e3; },
      [](int) { return 0.0; });
  waits.y_label = "ms of a step";
  waits.from_zero = true;
  report.curves = {rates, shares, epochs, waits};
  // Tables, notes, settings.
  report.tables.push_back(measured_table(data, model));
  if (projecting) report.tables.push_back(projected_table(data, *projecting));
  report.notes = notes(data, model, problem);
  report.settings.assign(data.setup.begin(), data.setup.end());
  return render_report(report);
}

}  // namespace retina
