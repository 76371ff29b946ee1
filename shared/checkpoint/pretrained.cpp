#include "shared/checkpoint/pretrained.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"
#include "shared/checkpoint/checkpoint.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "weights";
constexpr const char* kWeightsByName = "resnet50";  // owner of the names without a backbone

std::vector<PretrainedWeights> parse_table(const std::string& text) {
  std::vector<PretrainedWeights> table;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    std::istringstream columns(line);
    PretrainedWeights& row = table.emplace_back();
    columns >> row.name >> row.source;
  }
  return table;
}

// Returns the data set to search beside; without one, the working directory's.
fs::path set_of(const std::string& near) {
  return near.empty() ? "shards" : near;
}

// Returns the folder around `path`, as it is written there; "." for the working directory.
fs::path folder_around(const fs::path& path) {
  fs::path clean = path.lexically_normal();
  if (!clean.has_filename()) clean = clean.parent_path();  // "shards/"
  const fs::path parent = clean.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

// Returns $RETINA_WEIGHTS as a folder; empty if it is not set.
fs::path own_folder() {
  const char* const own = std::getenv("RETINA_WEIGHTS");
  const fs::path folder = own == nullptr ? "" : own;
  return folder.has_filename() ? folder : folder.parent_path();  // "weights/"
}

// Returns the folder in which `make weights` creates `weights`: data have their sets in `shards`
// (jobs/README.md), and their weights beside that.
fs::path data_folder(const std::string& near) {
  if (own_folder().filename() == kFolder) return folder_around(own_folder());
  const fs::path around = folder_around(set_of(near));
  return around.filename() == "shards" ? folder_around(around) : around;
}

// Returns true for "imagenet-v2-resnet18" as opposed to "imagenet-v2", which is ResNet-50's.
bool is_of_other_backbone(const std::string& name) {
  return name.starts_with("imagenet-") && std::count(name.begin(), name.end(), '-') > 1;
}

// Quotes a word for a shell's command line.
std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain = "_-./+,:@%";
  const bool is_plain = std::all_of(text.begin(), text.end(), [&](unsigned char c) {
    return std::isalnum(c) != 0 || c >= 0x80 ||
           kPlain.find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (is_plain) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

}  // namespace

std::string PretrainedWeights::file() const {
  return fs::path(source).replace_extension(".pt").string();
}

const std::vector<PretrainedWeights>& pretrained_weights() {
  static const std::vector<PretrainedWeights> kTable = parse_table(kWeightsTable);
  return kTable;
}

std::string pretrained_names() {
  std::string text;
  for (const auto& weights : pretrained_weights()) {
    if (!is_of_other_backbone(weights.name)) text += cat(weights.name, ", ");
  }
  return text + "imagenet-v1-BACKBONE, imagenet-v2-BACKBONE";
}

const PretrainedWeights* find_pretrained(const std::string& name) {
  for (const auto& weights : pretrained_weights()) {
    if (weights.name == name) return &weights;
  }
  return nullptr;
}

const PretrainedWeights* find_backbone(const std::string& name, const std::string& backbone) {
  return find_pretrained(backbone == kWeightsByName ? name : cat(name, "-", backbone));
}

const PretrainedWeights* pretrained_of_file(const std::string& path) {
  for (const auto& weights : pretrained_weights()) {
    if (fs::path(path).filename() == weights.file()) return &weights;
  }
  return nullptr;
}

std::string locate(const PretrainedWeights& weights, const std::string& near) {
  const auto in = [&](const fs::path& folder) { return (folder / weights.file()).string(); };
  if (!own_folder().empty() && path_exists(in(own_folder()))) return in(own_folder());
  fs::path folder = fs::absolute(set_of(near)).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "shards/"
  for (;; folder = folder.parent_path()) {
    if (const std::string path = in(folder / kFolder); path_exists(path)) return path;
    if (folder == folder.root_path()) return "";
  }
}

std::string fetched_path(const PretrainedWeights& weights, const std::string& near) {
  return (data_folder(near) / kFolder / weights.file()).string();
}

std::string fetch_command(const PretrainedWeights& weights, const std::string& near) {
  const fs::path folder = data_folder(near);
  return cat("make weights DATA=", shell_word(folder.string()), " WEIGHTS=", weights.name,
             " (without the sources: retina-weights --output ",
             shell_word((folder / kFolder).string()), " ", weights.name, ")");
}

void refuse_missing(const PretrainedWeights& weights, const NamedBy& by) {
  const std::string own = own_folder().string();
  throw Error(
      ErrorKind::kNoInput,
      cat(by.option, " ", weights.name, ": ", weights.file(), " is not in ",
          own.empty() ? "" : cat("$RETINA_WEIGHTS (", own, ") nor in "), "a folder weights beside ",
          by.near.empty() ? "the working directory" : by.near, " or above it"),
      fetch_command(weights, by.near));
}

const PretrainedWeights* take_name(const std::string& given, const NamedBy& by) {
  const PretrainedWeights* const weights = find_pretrained(given);
  if (weights != nullptr && path_exists(given)) {
    log_warning(by.option, " ", given,
                ": takes the weights of that name; what has this name here is ./", given);
  }
  return weights;
}

void check_import(const PretrainedWeights& weights, const std::string& file, const NamedBy& by) {
  std::string got = "a folder";
  if (!is_folder(file)) {
    const JsonFile config = JsonFile::parse(read_checkpoint_header(file).config_json, file);
    got = "the checkpoint of a training";
    if (config.root().has("import")) {
      const JsonView import = config.root().at("import");
      const std::string source = import.at("source").as_string();
      got = source == weights.source ? "" : cat("an import of ", escaped(source));
    }
  }
  if (!got.empty()) {
    throw Error(ErrorKind::kData,
                cat(file, ": is not what ", by.option, " ", weights.name, " names (got ", got,
                    ", want an import of ", weights.source, ")"),
                cat("move it away, then ", fetch_command(weights, by.near)));
  }
  log_info(by.option, " ", weights.name, ": ", file);
}

std::string resolve_name(const std::string& given, const NamedBy& by) {
  const PretrainedWeights* const weights = take_name(given, by);
  if (weights == nullptr) {
    const bool is_word = given.find_first_of("/.") == std::string::npos;
    if (!is_word || path_exists(given)) return given;
    throw Error(ErrorKind::kNoInput, cat(by.option, " ", escaped(given), ": no such file"),
                cat("give a run's folder, a model's file, or one of ", pretrained_names()));
  }
  const std::string file = locate(*weights, by.near);
  if (file.empty()) refuse_missing(*weights, by);
  check_import(*weights, file, by);
  return file;
}

}  // namespace retina
