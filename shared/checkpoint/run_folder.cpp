#include "shared/checkpoint/run_folder.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/checkpoint/sealed_file.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

std::string in_folder(const std::string& folder, const std::string& name) {
  return cat(folder, folder.ends_with('/') ? "" : "/", name);
}

// Reads the index; empty if it is missing or unreadable.
std::vector<CheckpointEntry> read_index(const std::string& folder) {
  std::vector<CheckpointEntry> entries;
  const std::string path = in_folder(folder, kCheckpointIndexFile);
  if (!path_exists(path)) return entries;
  try {
    const JsonFile index = JsonFile::read(path);
    const JsonView list = index.root().at("checkpoints");
    for (std::size_t i = 0; i < list.size(); ++i) {
      const JsonView item = list.at(i);
      CheckpointEntry entry{.file = item.at("file").as_string(),
                            .step = item.at("step").as_int(),
                            .xxh3 = item.at("xxh3").as_string()};
      if (!item.at("ap").raw().IsNull()) entry.ap = item.at("ap").as_double();
      entries.push_back(std::move(entry));
    }
  } catch (const Error&) {
    entries.clear();  // the index is only a hint
  }
  return entries;
}

CheckpointEntry entry_of(const std::string& folder, const std::vector<CheckpointEntry>& index,
                         const std::string& name) {
  const std::string path = in_folder(folder, name);
  const std::string seal = hex64(read_seal(path, "checkpoint"));
  const auto known = std::find_if(index.begin(), index.end(), [&](const CheckpointEntry& entry) {
    return entry.file == name && entry.xxh3 == seal;
  });
  if (known != index.end()) return *known;
  const CheckpointHeader header = read_checkpoint_header(path);
  const JsonFile trainer = JsonFile::parse(header.trainer_json, name);
  CheckpointEntry entry{.file = name, .step = trainer.root().at("step").as_int(), .xxh3 = seal};
  if (trainer.root().has("ap")) entry.ap = trainer.root().at("ap").as_double();
  return entry;
}

}  // namespace

std::string checkpoint_name(const RunPoint& point) {
  std::array<char, 64> name{};
  if (point.epoch_end) {
    std::snprintf(name.data(), name.size(), "checkpoint-%02lld.pt",
                  static_cast<long long>(point.epoch));
  } else {
    std::snprintf(name.data(), name.size(), "checkpoint-%02lld-%08lld.pt",
                  static_cast<long long>(point.epoch), static_cast<long long>(point.step));
  }
  return name.data();
}

bool is_checkpoint_name(const std::string& name) {
  return name_matches(name, "checkpoint-[0-9]{2,}(-[0-9]{8,})?\\.pt");
}

std::vector<std::string> checkpoint_files(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code code;
  const fs::directory_iterator items(folder, code);
  if (code && !means_no_file(code.value())) throw read_error(folder, code.value());
  for (const auto& item : items) {
    const std::string name = item.path().filename().string();
    if (is_checkpoint_name(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<CheckpointEntry> list_checkpoints(const std::string& folder) {
  const std::vector<CheckpointEntry> index = read_index(folder);
  std::vector<CheckpointEntry> entries;
  for (const auto& name : checkpoint_files(folder)) {
    try {
      entries.push_back(entry_of(folder, index, name));
    } catch (const Error& error) {
      skip_damaged(error, in_folder(folder, name));
    }
  }
  // Files of the same step keep their order in the index, whose later one is the last.
  const auto place = [&](const CheckpointEntry& entry) {
    return std::find_if(index.begin(), index.end(),
                        [&](const auto& known) { return known.file == entry.file; }) -
           index.begin();
  };
  std::stable_sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) {
    return a.step != b.step ? a.step < b.step : place(a) < place(b);
  });
  return entries;
}

void write_index(const std::string& folder, const std::vector<CheckpointEntry>& entries) {
  RETINA_CHECK(!entries.empty());
  JsonWriter json;
  json.begin_object().field("last", entries.back().file);
  json.key("best");
  const CheckpointEntry* const best = best_of(entries);
  best != nullptr ? json.value(best->file) : json.null();
  json.key("checkpoints").begin_array();
  for (const auto& entry : entries) {
    json.begin_object().field("file", entry.file).field("step", entry.step).key("ap");
    entry.ap ? json.value(*entry.ap) : json.null();
    json.field("xxh3", entry.xxh3).end_object();
  }
  json.end_array().end_object();
  const std::string path = in_folder(folder, kCheckpointIndexFile), text = json.pretty_text();
  if (!path_exists(path) || read_file(path) != text) write_file_atomically(path, text);
}

const CheckpointEntry* best_of(const std::vector<CheckpointEntry>& entries) {
  const CheckpointEntry* best = nullptr;
  for (const auto& entry : entries) {
    if (!entry.ap) continue;
    // Among models that find nothing yet, the longest trained one wins.
    const bool is_none = best == nullptr || (*best->ap <= 0 && *entry.ap >= *best->ap);
    if (is_none || *entry.ap > *best->ap) best = &entry;
  }
  return best;
}

void skip_damaged(const Error& error, const std::string& path) {
  if (error.kind() == ErrorKind::kNoInput && !path_exists(path)) return;
  if (error.kind() != ErrorKind::kData) throw;
  log_warning("skipping a damaged checkpoint: ", error.what());
}

std::string run_folder_of(const std::string& path) {
  const std::string inner = in_folder(path, "run");
  return is_folder(inner) && checkpoint_files(path).empty() ? inner : path;
}

std::string resolve_checkpoint(const std::string& given) {
  const std::string path = run_folder_of(given);
  if (!is_folder(path)) return path;
  if (checkpoint_files(path).empty()) {
    throw Error(ErrorKind::kNoInput, cat(path, ": a folder without checkpoints"),
                "give a model file, or the folder that retina-train wrote as its --output");
  }
  std::vector<CheckpointEntry> entries = list_checkpoints(path);
  while (!entries.empty()) {
    const CheckpointEntry* const best = best_of(entries);
    const CheckpointEntry chosen = best != nullptr ? *best : entries.back();
    const std::string file = in_folder(path, chosen.file);
    try {
      check_seal(file, "checkpoint");
    } catch (const Error& error) {
      skip_damaged(error, file);
      std::erase_if(entries, [&](const auto& entry) { return entry.file == chosen.file; });
      continue;
    }
    log_info(path, ": taking ", chosen.file,
             chosen.ap ? ", the best: validation metric " : ", the last",
             chosen.ap ? fixed(*chosen.ap, 4) : "", " at step ", chosen.step,
             chosen.ap ? "" : " (none was validated)");
    return file;
  }
  throw Error(ErrorKind::kData, cat(path, ": no checkpoint of this run is intact"),
              "put one back from a copy");
}

}  // namespace retina
