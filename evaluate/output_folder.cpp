#include "evaluate/output_folder.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/settings.h"
#include "shared/checkpoint/run_folder.h"
#include "shared/evaluation/metrics.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIdentityKey = "fixed";
constexpr const char* kModelKey = "model";  // in the identity of an evaluation with a model

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
SettingValues entries_of(const JsonView& object) {
  if (!object.raw().IsObject()) object.fail("want an object");
  SettingValues entries;
  for (const auto& member : object.raw().GetObject()) {
    rapidjson::StringBuffer buffer;
    rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
    member.value.Accept(writer);
    entries[member.name.GetString()] = buffer.GetString();
  }
  return entries;
}

}  // namespace

OutputFolder::OutputFolder(std::string folder) : folder_(made(folder)), lock_(folder_) {
  recover_file(config_path());
}

void OutputFolder::check_present() const {
  if (path_exists(config_path())) return;
  throw Error(ErrorKind::kIo, cat(folder_, ": has vanished during the evaluation"),
              "fix the mount or restore the folder, then run the same command again");
}

std::string OutputFolder::drawn_path(std::int64_t image_id) const {
  return cat(made(folder_ + "/drawn"), "/", image_id, ".jpg");
}

// retina-train keeps a config.json and a report of its own: nothing of these may be replaced.
void OutputFolder::check_is_no_run() const {
  for (const char* name : {kBooksFile, kMetricsFile}) {
    if (!path_exists(cat(folder_, "/", name))) continue;
    throw Error(ErrorKind::kConfig, cat(folder_, ": is the folder of a training run"),
                "choose another --output");
  }
}

// Other programs have a config.json, too.
std::optional<JsonFile> OutputFolder::stored_config() const {
  if (!path_exists(config_path())) return std::nullopt;
  try {
    JsonFile stored = JsonFile::read(config_path());
    const JsonView fixed = stored.root().at(kIdentityKey);
    if (fixed.has(kModelKey) ? fixed.has("data") : fixed.has("annotations")) return stored;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
  }
  return std::nullopt;
}

// metrics.json first: without it the folder counts as unfinished. config.json last: it says whose
// the others are.
std::vector<std::string> OutputFolder::written(bool with_model) const {
  std::vector<std::string> paths{metrics_path(), report_path()};
  if (with_model) {
    paths.push_back(detections_path());
    std::error_code ignored;
    for (fs::directory_iterator file(folder_ + "/drawn", ignored), end; file != end;
         file.increment(ignored)) {
      const std::string name = file->path().filename().string();
      if (name_matches(name, "-?[0-9]+\\.jpg")) paths.push_back(cat(folder_, "/drawn/", name));
    }
  }
  paths.push_back(config_path());
  std::erase_if(paths, [](const std::string& path) { return !path_exists(path); });
  return paths;
}

std::optional<double> OutputFolder::begin(const EvalIdentity& identity,
                                          const std::vector<EffectiveOption>& options,
                                          bool overwrite, const std::string& input) {
  check_is_no_run();
  const std::string fixed = identity_json(identity);
  const JsonFile wanted = JsonFile::parse(fixed, "options");
  const std::optional<JsonFile> stored = stored_config();
  if (stored && !overwrite) {
    const std::string changed =
        differences(entries_of(stored->root().at(kIdentityKey)), entries_of(wanted.root()));
    if (!changed.empty()) {
      throw Error(ErrorKind::kConfig, cat(folder_, ": holds another evaluation: ", changed),
                  "choose another --output, or --overwrite");
    }
    if (path_exists(metrics_path())) {
      const JsonFile metrics = JsonFile::read(metrics_path());
      return metrics.root().at("stats").at(std::size_t{kAp}).as_double();
    }
  }
  std::vector<std::string> own;
  if (stored) own = written(stored->root().at(kIdentityKey).has(kModelKey));
  for (const std::string& path : written(wanted.root().has(kModelKey))) {
    if (std::find(own.begin(), own.end(), path) != own.end()) continue;
    throw Error(
        ErrorKind::kConfig,
        cat(folder_, ": holds ", path.substr(folder_.size() + 1), ", which no evaluation wrote"),
        "choose another --output, or move the file away");
  }
  for (const std::string& path : own) {
    std::error_code none;
    if (input.empty() || !fs::equivalent(input, path, none)) remove_file(path);
  }
  JsonWriter json;
  json.begin_object().field("hash", hex64(xxh3(fixed))).key(kIdentityKey).raw(fixed);
  json.key("options").begin_object();
  for (const EffectiveOption& option : options) json.key(option.name).raw(option.json);
  json.end_object().end_object();
  write_file_atomically(config_path(), json.pretty_text());
  return std::nullopt;
}

}  // namespace retina
