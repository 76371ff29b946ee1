#include "train/scaling/scaling_report.h"

#include <algorithm>
#include <set>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/host.h"
#include "shared/base/json.h"
#include "shared/base/own_file.h"
#include "shared/base/version.h"
#include "train/reduce/link_probe.h"
#include "train/scaling/scaling_projection.h"

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

void write_numbers(JsonWriter& json, const char* name, const std::vector<double>& values) {
  json.key(name).begin_array();
  for (const double value : values) json.value(value);
  json.end_array();
}

std::vector<double> read_numbers(const JsonView& list) {
  std::vector<double> values;
  for (std::size_t i = 0; i < list.size(); ++i) values.push_back(list.at(i).as_double());
  return values;
}

void write_run(JsonWriter& json, const ScalingData& data, const ScalingRun& run) {
  const ScalingPoint& point = run.point;
  json.begin_object().field("ranks", point.ranks).field("nodes", run.nodes);
  json.field("steps", run.step_count).field("images_per_second", run.images_per_second);
  json.field("efficiency", efficiency(data, run.images_per_second, point.ranks));
  json.field("epoch_seconds", data.images_per_epoch / run.images_per_second);
  json.field("step_seconds", point.step_seconds).field("own_seconds", point.own_seconds);
  json.field("overlap_seconds", point.overlap_seconds).field("comm_seconds", point.comm_seconds);
  write_numbers(json, "bucket_bytes", point.bucket_bytes);
  std::vector<double> bytes, seconds;
  for (const auto& sample : point.samples) {
    bytes.push_back(sample.bytes);
    seconds.push_back(sample.seconds);
  }
  write_numbers(json, "all_reduce_bytes", bytes);
  write_numbers(json, "all_reduce_seconds", seconds);
  json.end_object();
}

ScalingRun read_run(const JsonView& json) {
  ScalingRun run{.nodes = static_cast<int>(json.at("nodes").as_int()),
                 .step_count = json.at("steps").as_int(),
                 .images_per_second = json.at("images_per_second").as_double()};
  run.point = {.ranks = static_cast<int>(json.at("ranks").as_int()),
               .step_seconds = json.at("step_seconds").as_double(),
               .own_seconds = json.at("own_seconds").as_double(),
               .overlap_seconds = json.at("overlap_seconds").as_double(),
               .comm_seconds = json.at("comm_seconds").as_double(),
               .bucket_bytes = read_numbers(json.at("bucket_bytes"))};
  const std::vector<double> bytes = read_numbers(json.at("all_reduce_bytes"));
  const std::vector<double> seconds = read_numbers(json.at("all_reduce_seconds"));
  if (bytes.size() != seconds.size()) json.fail("all_reduce_bytes and _seconds differ in length");
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    run.point.samples.push_back({.bytes = bytes[i], .seconds = seconds[i]});
  }
  return run;
}

// Up to the largest bucket: what the training itself sends.
std::vector<std::size_t> probe_sizes(const std::vector<double>& bucket_bytes) {
  std::set<std::size_t> sizes;
  const double largest = *std::max_element(bucket_bytes.begin(), bucket_bytes.end());
  for (double size = 4096; size < largest; size *= 8) sizes.insert(static_cast<std::size_t>(size));
  sizes.insert(static_cast<std::size_t>(largest));
  return {sizes.begin(), sizes.end()};
}

void check_same_setup(const std::string& path, const ScalingSetup& was, const ScalingSetup& now) {
  const std::string text = differences(was, now);
  if (text.empty()) return;
  throw Error(ErrorKind::kConfig, cat(path, ": its runs had other settings: ", text),
              "run with the same settings and images per rank, or into another --scaling-report");
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
  json.field("sums_by_nccl", data.sums_by_nccl);
  json.key("runs").begin_array();
  for (const ScalingRun& run : data.runs) write_run(json, data, run);
  json.end_array();
  if (const auto model = fit_scaling(points_of(data))) {
    json.key("model").begin_object();
    json.field("latency_seconds", model->links.link.latency_seconds);
    json.field("bytes_per_second", model->links.link.bytes_per_second);
    json.field("own_seconds", model->own_seconds).field("overlap_seconds", model->overlap_seconds);
    json.field("all_reduce_median_relative_error", model->links.median_relative_error);
    json.field("all_reduce_worst_relative_error", model->links.worst_relative_error);
    const std::string problem = misfit(data, *model);
    if (!problem.empty()) json.field("misfit", problem);
    json.end_object().key("projected").begin_array();
    for (const Projection& projected :
         problem.empty() ? projections(data, *model) : std::vector<Projection>{}) {
      json.begin_object().field("ranks", projected.ranks);
      json.field("projected_step_seconds", projected.step_seconds);
      json.field("projected_images_per_second", projected.images_per_second);
      json.field("projected_efficiency", projected.efficiency);
      json.field("projected_epoch_seconds", projected.epoch_seconds).end_object();
    }
    json.end_array();
  }
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
                   .images_per_epoch = root.at("images_per_epoch").as_double(),
                   .sums_by_nccl = root.has("sums_by_nccl") && root.at("sums_by_nccl").as_bool()};
  const auto& setup = root.at("setup").raw();
  for (auto item = setup.MemberBegin(); item != setup.MemberEnd(); ++item) {
    data.setup[item->name.GetString()] = root.at("setup").at(item->name.GetString()).as_string();
  }
  const JsonView runs = root.at("runs");
  for (std::size_t i = 0; i < runs.size(); ++i) data.runs.push_back(read_run(runs.at(i)));
  return data;
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
  // What cannot be written is reported now.
  write_file_atomically(path, scaling_json(data_));
}

bool ScalingReport::add(ScalingRun run, const WireOptions& wire, Communicator& communicator) {
  if (run.step_count == 0) return false;
  if (communicator.size() > 1) {
    run.point.samples =
        measure_all_reduce(communicator, {.sizes_bytes = probe_sizes(run.point.bucket_bytes),
                                          .type = wire.type,
                                          .ordered = wire.ordered});
  }
  const std::vector<std::string> hosts = communicator.gather(host_name(), 0);
  if (!communicator.is_root()) return true;
  run.nodes = static_cast<int>(std::set<std::string>(hosts.begin(), hosts.end()).size());
  auto& runs = data_.runs;
  std::erase_if(runs, [&](const auto& other) { return other.point.ranks == run.point.ranks; });
  runs.push_back(std::move(run));
  std::sort(runs.begin(), runs.end(),
            [](const auto& a, const auto& b) { return a.point.ranks < b.point.ranks; });
  midway([&] {
    write_file_atomically(json_path(folder_), scaling_json(data_));
    write_file_atomically(page_path(folder_), scaling_html(data_));
  });
  return true;
}

}  // namespace retina
