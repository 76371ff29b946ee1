#include "evaluate/output_folder.h"

#include <filesystem>
#include <map>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/evaluation/metrics.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

std::string made(const std::string& folder) {
  make_folder(folder);
  return folder;
}

std::string identity_json(const EvalIdentity& identity) {
  JsonWriter json;
  json.begin_object();
  for (const auto& [key, value] : identity) json.key(key).raw(value);
  return json.end_object().text();
}

// Key -> JSON literal.
std::map<std::string, std::string> entries_of(const JsonView& object) {
  if (!object.raw().IsObject()) object.fail("want an object");
  std::map<std::string, std::string> entries;
  for (const auto& member : object.raw().GetObject()) {
    rapidjson::StringBuffer buffer;
    rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
    member.value.Accept(writer);
    entries[member.name.GetString()] = buffer.GetString();
  }
  return entries;
}

std::string differences(const JsonView& before, const JsonView& now) {
  std::map<std::string, std::pair<std::string, std::string>> both;
  for (const auto& [key, value] : entries_of(before)) both[key].first = value;
  for (const auto& [key, value] : entries_of(now)) both[key].second = value;
  std::string text;
  for (const auto& [key, values] : both) {
    const auto& [was, is] = values;
    if (was == is) continue;
    text += cat(text.empty() ? "" : ", ", key, " (was ", was.empty() ? "unset" : was, ", now ",
                is.empty() ? "unset" : is, ")");
  }
  return text;
}

}  // namespace

OutputFolder::OutputFolder(std::string folder) : folder_(made(folder)), lock_(folder_) {
  recover_file(config_path());
}

void OutputFolder::check_present() const {
  if (path_exists(config_path())) return;
  throw Error(ErrorKind::kIo, cat(folder_, ": has vanished during the evaluation"),
              "mend the mount or bring the folder back, then run the same command again");
}

std::string OutputFolder::drawn_path(std::int64_t image_id) const {
  return cat(made(folder_ + "/drawn"), "/", image_id, ".jpg");
}

// retina-train keeps a config.json and a report of its own: nothing of these may be replaced.
void OutputFolder::check_is_ours() const {
  for (const char* name : {"checkpoints.json", "metrics.jsonl"}) {
    if (!path_exists(cat(folder_, "/", name))) continue;
    throw Error(ErrorKind::kConfig, cat(folder_, ": is the folder of a training run"),
                "choose another --output");
  }
}

// metrics.json first: without it the folder counts as unfinished.
void OutputFolder::clear(const std::string& input) const {
  const bool had_evaluation = path_exists(config_path());
  remove_file(metrics_path());
  if (!had_evaluation) return;  // the rest is somebody else's
  std::error_code none;
  if (input.empty() || !fs::equivalent(input, detections_path(), none)) {
    remove_file(detections_path());
  }
  remove_file(report_path());
  std::error_code code;
  std::vector<fs::path> drawn;
  for (fs::directory_iterator file(folder_ + "/drawn", code), end; file != end;
       file.increment(code)) {
    if (file->path().extension() == ".jpg") drawn.push_back(file->path());
  }
  for (const fs::path& path : drawn) remove_file(path.string());
}

std::optional<double> OutputFolder::begin(const EvalIdentity& identity,
                                          const std::vector<EffectiveOption>& options,
                                          bool overwrite, const std::string& input) {
  check_is_ours();
  const std::string fixed = identity_json(identity);
  if (path_exists(config_path()) && !overwrite) {
    const JsonFile stored = JsonFile::read(config_path());
    const JsonFile wanted = JsonFile::parse(fixed, "options");
    const std::string changed = differences(stored.root().at("fixed"), wanted.root());
    if (!changed.empty()) {
      throw Error(ErrorKind::kConfig, cat(folder_, ": holds another evaluation: ", changed),
                  "choose another --output, or --overwrite");
    }
    if (path_exists(metrics_path())) {
      const JsonFile metrics = JsonFile::read(metrics_path());
      return metrics.root().at("stats").at(std::size_t{kAp}).as_double();
    }
  }
  clear(input);
  JsonWriter json;
  json.begin_object().field("hash", hex64(xxh3(fixed))).key("fixed").raw(fixed);
  json.key("options").begin_object();
  for (const EffectiveOption& option : options) json.key(option.name).raw(option.json);
  json.end_object().end_object();
  write_file_atomically(config_path(), json.pretty_text());
  return std::nullopt;
}

}  // namespace retina
