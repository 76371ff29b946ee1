#include "train/scaling/scaling_report.h"

#include <algorithm>
#include <set>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/host.h"
#include "shared/base/json.h"
#include "shared/base/output.h"
#include "shared/base/version.h"
#include "shared/report/report.h"

namespace retina {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr const char* kFormat = "retina-scaling";
constexpr const char* kPageTitle = "<title>retina-train: scaling</title>";

std::string json_path(const std::string& folder) {
  return folder + "/scaling.json";
}

std::string page_path(const std::string& folder) {
  return folder + "/scaling.html";
}

void write_run(JsonWriter& json, const ScalingData& data, const ScalingRun& run) {
  json.begin_object().field("ranks", run.ranks).field("nodes", run.nodes);
  json.field("steps", run.step_count).field("images_per_second", run.images_per_second);
  json.field("efficiency", efficiency(data, run));
  json.field("epoch_seconds", data.images_per_epoch / run.images_per_second);
  json.field("step_seconds", run.step_seconds).field("own_seconds", run.own_seconds);
  json.field("overlap_seconds", run.overlap_seconds).field("comm_seconds", run.comm_seconds);
  json.key("bucket_bytes").begin_array();
  for (const double bytes : run.bucket_bytes) json.value(bytes);
  json.end_array().end_object();
}

ScalingRun read_run(const JsonView& json) {
  ScalingRun run{.ranks = static_cast<int>(json.at("ranks").as_int()),
                 .nodes = static_cast<int>(json.at("nodes").as_int()),
                 .step_count = json.at("steps").as_int(),
                 .images_per_second = json.at("images_per_second").as_double(),
                 .step_seconds = json.at("step_seconds").as_double(),
                 .own_seconds = json.at("own_seconds").as_double(),
                 .overlap_seconds = json.at("overlap_seconds").as_double(),
                 .comm_seconds = json.at("comm_seconds").as_double()};
  const JsonView bytes = json.at("bucket_bytes");
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    run.bucket_bytes.push_back(bytes.at(i).as_double());
  }
  return run;
}

void check_same_setup(const std::string& path, const ScalingSetup& was, const ScalingSetup& now) {
  const std::string text = differences(was, now);
  if (text.empty()) return;
  throw Error(ErrorKind::kConfig, cat(path, ": its runs had other settings: ", text),
              "run with the same settings and images per rank, or into another --scaling-report");
}

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

std::string scaling_json(const ScalingData& data) {
  JsonWriter json;
  json.begin_object().field("format", kFormat).field("version", kVersion);
  json.field("program", cat(kProjectVersion, " (", kGitRevision, ")"));
  json.key("setup").begin_object();
  for (const auto& [key, value] : data.setup) json.field(key, value);
  json.end_object().field("images_per_rank", data.images_per_rank);
  json.field("images_per_epoch", data.images_per_epoch);
  json.key("runs").begin_array();
  for (const ScalingRun& run : data.runs) write_run(json, data, run);
  json.end_array();
  return json.end_object().pretty_text();
}

ScalingData scaling_from_json(const std::string& text, const std::string& name) {
  const JsonFile file = JsonFile::parse(text, name);
  const JsonView root = file.root();
  if (!root.has("format") || root.at("format").as_string() != kFormat ||
      root.at("version").as_int() != kVersion) {
    root.fail("not a scaling.json of this version");
  }
  ScalingData data{.images_per_rank = root.at("images_per_rank").as_double(),
                   .images_per_epoch = root.at("images_per_epoch").as_double()};
  const auto& setup = root.at("setup").raw();
  for (auto item = setup.MemberBegin(); item != setup.MemberEnd(); ++item) {
    data.setup[item->name.GetString()] = root.at("setup").at(item->name.GetString()).as_string();
  }
  const JsonView runs = root.at("runs");
  for (std::size_t i = 0; i < runs.size(); ++i) data.runs.push_back(read_run(runs.at(i)));
  return data;
}

double efficiency(const ScalingData& data, const ScalingRun& run) {
  const ScalingRun& base = data.runs.front();
  return run.images_per_second / run.ranks / (base.images_per_second / base.ranks);
}

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

ScalingReport::ScalingReport(const std::string& folder, const ScalingData& own,
                             Communicator& communicator)
    : folder_(folder), data_(own) {
  if (!communicator.is_root()) return;
  make_folder(folder, "--scaling-report");
  const std::string path = json_path(folder);
  check_may_replace(path, kFormat, "--scaling-report");
  check_may_replace(page_path(folder), kPageTitle, "--scaling-report");
  if (path_exists(path)) {
    ScalingData before = scaling_from_json(read_file(path), path);
    check_same_setup(path, before.setup, own.setup);
    data_.runs = std::move(before.runs);
  }
  // An unwritable folder is reported now.
  write_file_atomically(path, scaling_json(data_));
}

bool ScalingReport::add(ScalingRun run, Communicator& communicator) {
  if (run.step_count == 0) return false;
  const std::vector<std::string> hosts = communicator.gather(host_name(), 0);
  if (!communicator.is_root()) return true;
  run.nodes = static_cast<int>(std::set<std::string>(hosts.begin(), hosts.end()).size());
  auto& runs = data_.runs;
  std::erase_if(runs, [&](const auto& other) { return other.ranks == run.ranks; });
  runs.push_back(std::move(run));
  std::sort(runs.begin(), runs.end(),
            [](const auto& a, const auto& b) { return a.ranks < b.ranks; });
  as_io_error([&] {
    write_file_atomically(json_path(folder_), scaling_json(data_));
    write_file_atomically(page_path(folder_), scaling_html(data_));
  });
  return true;
}

}  // namespace retina
