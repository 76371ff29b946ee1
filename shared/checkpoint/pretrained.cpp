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
#include "shared/base/log.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "weights";

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

// Without data from the working directory.
fs::path set_of(const std::string& near) {
  return near.empty() ? "shards" : near;
}

// The folder around `path`, as it is written there; "." for the working directory.
fs::path folder_around(const fs::path& path) {
  fs::path clean = path.lexically_normal();
  if (!clean.has_filename()) clean = clean.parent_path();  // "shards/"
  const fs::path parent = clean.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

// Nothing without $RETINA_WEIGHTS.
fs::path own_folder() {
  const char* const own = std::getenv("RETINA_WEIGHTS");
  return own == nullptr ? "" : own;
}

// Where `make weights` is to write `weights`. Data have their sets in `shards` (jobs/README.md),
// and their weights beside that.
fs::path data_folder(const std::string& near) {
  if (own_folder().filename() == kFolder) return folder_around(own_folder());
  const fs::path around = folder_around(set_of(near));
  return around.filename() == "shards" ? folder_around(around) : around;
}

// A word of a shell's command line.
std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain = "_-./+,:@%";
  const bool is_plain = std::all_of(text.begin(), text.end(), [&](unsigned char c) {
    return std::isalnum(c) != 0 || c >= 0x80 ||
           kPlain.find(static_cast<char>(c)) != std::string_view::npos;
  });
  return is_plain ? text : cat("'", text, "'");
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
    text += cat(text.empty() ? "" : ", ", weights.name);
  }
  return text;
}

const PretrainedWeights* find_pretrained(const std::string& name) {
  for (const auto& weights : pretrained_weights()) {
    if (weights.name == name) return &weights;
  }
  return nullptr;
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
  for (fs::path folder = folder_around(fs::absolute(set_of(near)));;
       folder = folder.parent_path()) {
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
             " (in the image: retina-weights --output ", shell_word((folder / kFolder).string()),
             " ", weights.name, ")");
}

void refuse_missing(const PretrainedWeights& weights, const std::string& option,
                    const std::string& near) {
  const char* const own = std::getenv("RETINA_WEIGHTS");
  throw Error(ErrorKind::kNoInput,
              cat(option, " ", weights.name, ": ", weights.file(), " is not in ",
                  own == nullptr ? "" : cat("$RETINA_WEIGHTS (", own, ") nor in "),
                  "a folder weights beside ", near.empty() ? "the working directory" : near,
                  " or above it"),
              fetch_command(weights, near));
}

std::string resolve_name(const std::string& given, const std::string& option,
                         const std::string& near) {
  const PretrainedWeights* const weights = find_pretrained(given);
  if (weights == nullptr) return given;
  const std::string file = locate(*weights, near);
  if (file.empty()) refuse_missing(*weights, option, near);
  log_info(option, " ", given, ": ", file);
  return file;
}

}  // namespace retina
