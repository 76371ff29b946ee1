#include "train/run/run_dir.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigFile = "config.json";
constexpr const char* kBucketsFile = "buckets.json";
constexpr const char* kReportFile = "report.html";
// The run's files besides the checkpoints.
constexpr const char* kFiles[] = {kConfigFile, kCheckpointIndexFile, kBucketsFile, kMetricsFile,
                                  kReportFile};
constexpr const char* kResumeKey = "resume_fingerprint";
constexpr const char* kFixedKey = "fixed";

// Returns whether a run wrote the file: other programs have a config.json, too.
bool is_of_run(const std::string& config_path) {
  try {
    const JsonFile stored = JsonFile::read(config_path);
    return stored.root().has(kFixedKey) && stored.root().at(kFixedKey).has(kTrainKey);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
  }
  return false;
}

}  // namespace

RunDir::RunDir(std::string folder, Access access) : folder_(std::move(folder)) {
  if (access == Access::kRead) return;
  make_folder(folder_);
  lock_ = std::make_unique<FolderLock>(folder_);
  for (const char* name : kFiles) recover_file(path(name));
}

std::string RunDir::report_path() const {
  return path(kReportFile);
}

void RunDir::remove_if_unused() {
  std::error_code kept;
  fs::remove(path(".lock"), kept);
  fs::remove(folder_, kept);
}

bool RunDir::has_run() const {
  return path_exists(path(kConfigFile));
}

void RunDir::check_own() const {
  const auto refuse = [&](const std::string& name, const std::string& problem) {
    throw Error(ErrorKind::kConfig, cat(folder_, ": holds ", name, problem),
                "choose another --output, or move the file away");
  };
  if (has_run()) {
    if (!is_of_run(path(kConfigFile))) refuse(kConfigFile, ", which retina-train did not write");
    return;
  }
  std::vector<std::string> names = checkpoint_files();
  names.insert(names.end(), {kCheckpointIndexFile, kBucketsFile, kMetricsFile, kReportFile});
  for (const std::string& name : names) {
    if (!path_exists(path(name))) continue;
    refuse(name, cat(", but no ", kConfigFile, " of the run that would have written it"));
  }
}

void RunDir::clear() {
  for (const auto& name : checkpoint_files()) remove_file(path(name));
  remove_leftovers();
  for (const char* name : {kCheckpointIndexFile, kBucketsFile, kMetricsFile})
    remove_file(path(name));
  remove_file(report_path());
  const std::vector<std::string> left = checkpoint_files();
  if (!left.empty()) {
    throw Error(ErrorKind::kIo, cat(path(left.front()), ": cannot be removed"),
                "fix its permissions, or choose another --output");
  }
  sync_path(folder_);  // in this order on the disk, too
  remove_file(path(kConfigFile));
  entries_.clear();
}

bool RunDir::has_checkpoint(const std::string& file) const {
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  if (error || real.parent_path() != fs::canonical(folder_, error)) return false;
  const std::vector<std::string> names = checkpoint_files();
  return std::find(names.begin(), names.end(), real.filename().string()) != names.end();
}

std::optional<OptionTexts> RunDir::options_of(const std::string& folder) {
  const std::string path = cat(folder, "/", kConfigFile);
  if (!path_exists(path)) return std::nullopt;
  try {
    const JsonFile stored = JsonFile::read(path);
    return option_texts(stored.root().at("options"));
  } catch (const Error&) {
    return std::nullopt;  // another program's file, which check_own reports
  }
}

std::string RunDir::resume_fingerprint() const {
  const JsonFile stored = JsonFile::read(path(kConfigFile));
  return stored.root().has(kResumeKey) ? stored.root().at(kResumeKey).as_string() : "";
}

void RunDir::check_same_run(const RunConfig& config) const {
  const JsonFile stored = JsonFile::read(path(kConfigFile));
  FixedOptions before = fixed_options(stored.root().at(kFixedKey));
  // The weights that a run began with may be gone by the time it continues.
  if (config.init_fingerprint.empty() && !config.init_none) before.erase(kInitKey);
  const std::string text = changed_options(before, fixed_options(config));
  if (text.empty()) return;
  throw Error(ErrorKind::kConfig, cat(folder_, ": holds a run of another configuration: ", text),
              "choose another --output, use the same options, or --overwrite");
}

void RunDir::write_config(const RunConfig& config) {
  RunConfig whole = config;
  const std::string before = has_run() ? read_file(path(kConfigFile)) : "";
  if (!before.empty()) {
    const JsonFile stored = JsonFile::parse(before, path(kConfigFile));
    const JsonView fixed = stored.root().at(kFixedKey);
    // A continuation without --init or a validation set keeps the fingerprints of the run's start.
    for (const auto& [key, value] : {std::pair{kInitKey, &whole.init_fingerprint},
                                     std::pair{kValidationKey, &whole.validation_fingerprint}}) {
      if (value->empty() && fixed.has(key)) *value = fixed.at(key).as_string();
    }
  }
  if (!before.empty() && whole.resume_fingerprint.empty()) {
    whole.resume_fingerprint = resume_fingerprint();
  }
  const std::string fixed_json = fixed_options_json(whole);
  // The effective options, the schedule, and the settings that a continuation must share.
  JsonWriter json;
  json.begin_object().field("hash", hex64(xxh3(fixed_json)));
  json.key("options").begin_object();
  for (const auto& option : whole.options) json.key(option.name).raw(option.json);
  json.end_object();
  json.field("effective_lr", whole.effective_lr);
  json.key("schedule").begin_object().field("total_steps", whole.schedule.total_steps);
  json.field("warmup_steps", whole.schedule.warmup_steps);
  json.list("drop_steps", whole.schedule.drop_steps).end_object();
  if (!whole.resume_fingerprint.empty()) json.field(kResumeKey, whole.resume_fingerprint);
  json.key(kFixedKey).raw(fixed_json).end_object();
  if (json.pretty_text() != before) write_file_atomically(path(kConfigFile), json.pretty_text());
}

std::string RunDir::read_buckets() const {
  return path_exists(path(kBucketsFile)) ? read_file(path(kBucketsFile)) : "";
}

void RunDir::write_buckets(const std::string& json) {
  if (json != read_buckets()) write_file_atomically(path(kBucketsFile), json);
}

void RunDir::check_space(double checkpoint_bytes, int keep, const std::string& scratch) const {
  // The newest `keep`, the best, and the one being written.
  double needed_bytes = checkpoint_bytes * (keep + 2);
  for (const auto& name : checkpoint_files()) {
    needed_bytes -= static_cast<double>(file_size_bytes(path(name)));
  }
  require_space(folder_, std::max(needed_bytes, checkpoint_bytes), "--output");
  if (!scratch.empty()) require_space(scratch, checkpoint_bytes, "--scratch");
}

void RunDir::check_present() const {
  if (has_run()) return;
  throw Error(ErrorKind::kIo, cat(folder_, ": the run's folder has vanished"),
              "fix the mount or restore the folder, then run the same command again");
}

std::vector<std::string> RunDir::checkpoint_files() const {
  return retina::checkpoint_files(folder_);
}

void RunDir::remove_leftovers() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& item : fs::directory_iterator(folder_, ignored)) {
    names.push_back(item.path().filename().string());
  }
  for (const auto& name : names) {
    const std::size_t end = name.find(".tmp");
    if (end == std::string::npos) continue;
    const std::string whole = name.substr(0, end);
    if (is_checkpoint_name(whole) || std::count(std::begin(kFiles), std::end(kFiles), whole) > 0) {
      remove_file(path(name));
    }
  }
}

void RunDir::write_index() const {
  if (!entries_.empty()) retina::write_index(folder_, entries_);
}

void RunDir::record(const CheckpointEntry& entry, int keep) {
  check_present();
  std::erase_if(entries_, [&](const auto& other) { return other.file == entry.file; });
  entries_.push_back(entry);
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const auto& a, const auto& b) { return a.step < b.step; });
  const CheckpointEntry* const best = best_of(entries_);
  const std::string best_file = best == nullptr ? "" : best->file;
  std::vector<std::string> dropped;
  const auto newest = static_cast<std::size_t>(keep);
  for (std::size_t i = 0; i + newest < entries_.size(); ++i) {
    if (entries_[i].file != best_file) dropped.push_back(entries_[i].file);
  }
  std::erase_if(entries_, [&](const auto& other) {
    return std::find(dropped.begin(), dropped.end(), other.file) != dropped.end();
  });
  write_index();
  for (const auto& name : dropped) remove_file(path(name));
}

}  // namespace retina
