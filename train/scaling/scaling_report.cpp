#include "train/scaling/scaling_report.h"

#include <algorithm>
#include <set>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/host.h"
#include "shared/base/json.h"
#include "shared/base/output.h"
#include "shared/base/version.h"

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
