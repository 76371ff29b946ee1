#include "evaluate/evaluation_folder.h"

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <vector>

#include "evaluate/detection_formats.h"
#include "evaluate/options.h"
#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/output.h"
#include "shared/base/printable.h"
#include "shared/checkpoint/run_folder.h"
#include "shared/evaluation/score/metrics.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigName = "config.json";
constexpr const char* kMetricsName = "metrics.json";
constexpr const char* kDetectionsName = "detections.json";
constexpr const char* kPredictionsName = "predictions.jsonl";
constexpr const char* kIdentityKey = "fixed";
constexpr const char* kOptionsKey = "options";
constexpr const char* kFilesKey = "files";  // files of --images whose labels and drawings are ours
// Keys of the identity. An evaluation with a model has kModelKey and kDataKey, one of results
// kResultsKey.
constexpr const char* kModelKey = "model";
constexpr const char* kDataKey = "data";
constexpr const char* kAnnotationsKey = "annotations";  // of results, or kDataKey
constexpr const char* kResultsKey = "detections";
constexpr const char* kImagesKey = "images";  // with --images, instead of kDataKey
constexpr const char* kMaxImagesKey = "max-images";
constexpr std::size_t kDrawnNameBytes = 160;  // a file name has room for 255

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

// Returns the members of `object` as key -> JSON literal.
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

std::vector<std::string> stored_files(const JsonView& config) {
  std::vector<std::string> names;
  if (!config.has(kFilesKey)) return names;
  const JsonView list = config.at(kFilesKey);
  for (std::size_t i = 0; i < list.size(); ++i) names.push_back(list.at(i).as_string());
  return names;
}

// Returns a relative path without its extension as one file name in UTF-8.
std::string flattened(const std::string& name) {
  const std::size_t begin = name.rfind('/') + 1, dot = name.rfind('.');  // 0 without a folder
  std::string flat =
      escaped(dot != std::string::npos && dot > begin ? name.substr(0, dot) : name, kWholeText);
  std::replace(flat.begin(), flat.end(), '/', '_');
  std::replace(flat.begin(), flat.end(), '\\', '_');
  if (flat.size() <= kDrawnNameBytes) return flat;
  std::size_t end = kDrawnNameBytes;
  while ((static_cast<unsigned char>(flat[end]) & 0xC0U) == 0x80U) --end;  // a whole character
  return flat.substr(0, end);
}

}  // namespace

EvaluationFolder::EvaluationFolder(std::string folder) : folder_(made(folder)), lock_(folder_) {
  recover_file(config_path());
}

void EvaluationFolder::check_present() const {
  if (path_exists(config_path())) return;
  throw Error(ErrorKind::kIo, cat(folder_, ": has vanished during the evaluation"),
              "fix the mount or restore the folder, then run the same command again");
}

std::string EvaluationFolder::drawn_path(std::int64_t image_id, const std::string& name,
                                         const std::string& part) const {
  return cat(made(folder_ + "/drawn"), "/", image_id, name.empty() ? "" : "_", flattened(name),
             part.empty() ? "" : ".", part, ".jpg");
}

std::string EvaluationFolder::label_path(const std::string& name) const {
  const std::string path = cat(folder_, "/labels/", name);
  make_folder_of(path);
  return path;
}

// Throws kConfig in the folder of a training run: retina-train has a config.json and a report of
// its own, which must not be replaced.
void EvaluationFolder::check_is_no_run() const {
  for (const char* name : {kCheckpointIndexFile, kMetricsFile}) {
    if (!path_exists(cat(folder_, "/", name))) continue;
    throw Error(ErrorKind::kConfig, cat(folder_, ": is the folder of a training run"),
                "choose another --output");
  }
}

// Other programs have a config.json, too.
std::optional<EvaluationFolder::Kind> EvaluationFolder::kind_of(const JsonView& identity) {
  if (identity.has(kComparedA) && identity.has(kComparedB)) return Kind::kComparison;
  if (identity.has(kModelKey)) {
    if (identity.has(kDataKey)) return identity.has(kTask) ? Kind::kClassifier : Kind::kModel;
    if (identity.has(kImagesKey)) return Kind::kImages;
  } else if (identity.has(kResultsKey)) {
    return Kind::kResults;
  }
  return std::nullopt;
}

std::optional<JsonFile> EvaluationFolder::stored_config() const {
  if (!path_exists(config_path())) return std::nullopt;
  try {
    JsonFile stored = JsonFile::read(config_path());
    if (kind_of(stored.root().at(kIdentityKey))) return stored;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
  }
  return std::nullopt;
}

// The last file comes first: without it the folder counts as unfinished. config.json comes last: it
// shows that the others are ours.
std::vector<std::string> EvaluationFolder::written(
    const JsonView& identity, const std::vector<std::string>& image_names) const {
  const Kind kind = kind_of(identity).value();
  const bool is_on_files = kind == Kind::kImages;
  std::vector<std::string> paths{last_path(kind)};
  paths.push_back(is_on_files                 ? skipped_path()
                  : kind == Kind::kComparison ? compare_page_path()
                                              : report_path());
  if (kind == Kind::kModel || kind == Kind::kClassifier || is_on_files) {
    paths.push_back(kind == Kind::kClassifier ? predictions_path() : detections_path());
    std::set<std::string> drawn;
    for (const std::string& name : image_names) drawn.insert(flattened(name));
    std::error_code ignored;
    for (fs::directory_iterator file(folder_ + "/drawn", ignored), end; file != end;
         file.increment(ignored)) {
      const std::string name = file->path().filename().string();
      static const std::regex kDrawn("-?[0-9]+(_(.*?))?(\\.(whole|tile [0-9x+]+))?\\.jpg");
      std::smatch match;
      const bool is_ours =
          std::regex_match(name, match, kDrawn) && (!is_on_files || drawn.contains(match[2].str()));
      if (is_ours) paths.push_back(cat(folder_, "/drawn/", name));
    }
  }
  const std::string formats =
      identity.has(kOutputFormat) ? identity.at(kOutputFormat).as_string() : "";
  const auto had = [&](OutputFormat one) {
    return formats.find(word_of(kOutputFormats, one)) != std::string::npos;
  };
  if (had(OutputFormat::kCsv)) paths.push_back(csv_path());
  if (had(OutputFormat::kGeojson)) paths.push_back(geojson_path());
  if (had(OutputFormat::kYolo)) {
    paths.push_back(yolo_data_path());
    for (const std::string& name : image_names) {
      paths.push_back(cat(folder_, "/labels/", yolo_label_name(name)));
    }
  }
  paths.push_back(config_path());
  std::erase_if(paths, [](const std::string& path) { return !path_exists(path); });
  return paths;
}

std::optional<JsonFile> EvaluationFolder::begin(const EvalIdentity& identity,
                                                const std::vector<EffectiveOption>& options,
                                                bool overwrite,
                                                const std::vector<std::string>& inputs,
                                                const std::vector<std::string>& image_names) {
  check_is_no_run();
  const std::string fixed = identity_json(identity);
  const JsonFile wanted = JsonFile::parse(fixed, "options");
  const Kind kind = kind_of(wanted.root()).value();
  const std::optional<JsonFile> stored = stored_config();
  if (stored && !overwrite) {
    const std::string changed =
        differences(entries_of(stored->root().at(kIdentityKey)), entries_of(wanted.root()));
    if (!changed.empty()) {
      throw Error(ErrorKind::kConfig, cat(folder_, ": holds another evaluation: ", changed),
                  "choose another --output, or --overwrite");
    }
    if (path_exists(last_path(kind))) return JsonFile::read(last_path(kind));
  }
  std::vector<std::string> own;
  if (stored) own = written(stored->root().at(kIdentityKey), stored_files(stored->root()));
  const std::set<std::string> known(own.begin(), own.end());
  for (const std::string& path : written(wanted.root(), image_names)) {
    if (known.contains(path)) continue;
    throw Error(
        ErrorKind::kConfig,
        cat(folder_, ": holds ", path.substr(folder_.size() + 1), ", which no evaluation wrote"),
        "choose another --output, or move the file away");
  }
  for (const std::string& path : own) {
    const bool is_input = std::any_of(inputs.begin(), inputs.end(), [&](const std::string& input) {
      std::error_code none;
      return fs::equivalent(input, path, none);
    });
    if (!is_input) remove_file(path);
  }
  JsonWriter json;
  json.begin_object().field("hash", hex64(xxh3(fixed))).key(kIdentityKey).raw(fixed);
  json.key(kOptionsKey).begin_object();
  for (const EffectiveOption& option : options) json.key(option.name).raw(option.json);
  json.end_object();
  if (!image_names.empty()) json.list(kFilesKey, image_names);
  json.end_object();
  write_file_atomically(config_path(), json.pretty_text());
  return std::nullopt;
}

JsonView headline_metric(const JsonFile& finished) {
  const JsonView root = finished.root();
  return root.has(EvaluationFolder::kTask) ? root.at("top1")
                                           : root.at("stats").at(std::size_t{kAp});
}

StoredEvaluation read_evaluation(const std::string& folder) {
  require_folder(folder, "");
  const std::string config = folder + "/" + kConfigName;
  const auto refuse = [&](const char* problem) {
    return Error(ErrorKind::kNoInput, cat(folder, ": ", problem),
                 "give the --output folder of a finished retina-eval, or a COCO results JSON");
  };
  if (!path_exists(config)) throw refuse("is not an evaluation (it has no config.json)");
  const JsonFile file = JsonFile::read(config);
  if (!file.root().has(kIdentityKey)) throw refuse("its config.json is not that of an evaluation");
  const JsonView identity = file.root().at(kIdentityKey);
  const auto kind = EvaluationFolder::kind_of(identity);
  if (!kind) throw refuse("its config.json is not that of an evaluation");
  if (*kind == EvaluationFolder::Kind::kComparison)
    throw refuse("is a comparison, not an evaluation");
  if (!path_exists(folder + "/" + kMetricsName)) {
    throw refuse("its evaluation is not finished (it has no metrics.json)");
  }
  // With a model both files are in the folder; without one the options name the results that were
  // scored.
  const JsonView options = file.root().at(kOptionsKey);
  StoredEvaluation stored;
  stored.is_classification = *kind == EvaluationFolder::Kind::kClassifier;
  if (*kind == EvaluationFolder::Kind::kModel || stored.is_classification) {
    stored.results =
        cat(folder, "/", stored.is_classification ? kPredictionsName : kDetectionsName);
    stored.truth = {.is_shards = true,
                    .path = options.at(kDataKey).as_string(),
                    .hash = identity.at(kDataKey).as_string(),
                    .max_images = identity.at(kMaxImagesKey).as_int()};
  } else {
    stored.results = options.at(kResultsKey).as_string();
    stored.results_hash = identity.at(kResultsKey).as_string();
    const bool is_shards = identity.has(kDataKey);
    const char* const key = is_shards ? kDataKey : kAnnotationsKey;
    stored.truth = {.is_shards = is_shards,
                    .path = options.at(key).as_string(),
                    .hash = identity.at(key).as_string()};
  }
  stored.truth.count_best = identity.has(EvaluationFolder::kCountBest)
                                ? identity.at(EvaluationFolder::kCountBest).as_int()
                                : kMaxDetectionsPerImage;
  return stored;
}

}  // namespace retina
