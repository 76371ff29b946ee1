#include "train/run/continuation.h"

#include <utility>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/checkpoint/sealed_file.h"

namespace retina {
namespace {

// Returns the difference in the backbone's layers that train: unless an option gives their number,
// it follows from --init.
std::string change_of_layers(const JsonView& before, const Continuation& now) {
  const bool had_weights = before.has("init") && names_weights(before.at("init").as_string());
  if (now.has_trainable_layers || had_weights == now.has_weights) return "";
  const auto init = [](bool given) { return SettingValues{{"init", given ? "given" : "unset"}}; };
  return cat(differences(init(had_weights), init(now.has_weights)),
             ": this would train a different set of layers");
}

}  // namespace

std::optional<Found> newest_checkpoint(RunDir& dir) {
  std::vector<CheckpointEntry> entries = dir.found_checkpoints();
  std::optional<Found> found;
  while (!found && !entries.empty()) {
    const std::string path = dir.path(entries.back().file);
    try {
      found = Found{load_checkpoint(path), path};
    } catch (const Error& error) {
      skip_damaged(error, path);
      entries.pop_back();
    }
  }
  if (!found && !dir.checkpoint_files().empty()) {
    throw Error(ErrorKind::kData, cat(dir.path(""), ": no checkpoint of this run is intact"),
                "put one back from a copy, or start afresh with --overwrite");
  }
  dir.restore(std::move(entries));
  return found;
}

void check_continues(const Found& found, const Continuation& now) {
  FixedOptions fixed = fixed_options(now.config);
  fixed.erase(kInitKey);
  std::string text = changed_options(
      fixed_options_of_checkpoint(found.checkpoint.config_json, found.checkpoint.trainer_json,
                                  now.config, found.path),
      fixed);
  // The norm follows from --init, which may change.
  const JsonFile stored = JsonFile::parse(found.checkpoint.config_json, found.path);
  const std::string before = ModelConfig::from_json(stored.root().at("model")).to_json();
  const std::string model = now.model.to_json();
  if (text.empty()) text = differences({{"the model", before}}, {{"the model", model}});
  if (text.empty()) text = change_of_layers(stored.root().at("train"), now);
  if (text.empty()) return;
  throw Error(ErrorKind::kConfig, cat(found.path, ": its run had other settings: ", text),
              "resume with the same data and options, or start afresh with --init");
}

void check_asked_for(const RunDir& dir, const Found& newest, const std::string& file) {
  const std::uint64_t asked = read_seal(file, "checkpoint");
  if (asked == read_seal(newest.path, "checkpoint") || hex64(asked) == dir.resume_fingerprint()) {
    return;
  }
  throw Error(
      ErrorKind::kConfig,
      cat(dir.folder(), ": its run's latest checkpoint is ", newest.path, ", not --resume ", file),
      "continue it with --resume auto, or give --resume FILE with another --output");
}

void check_keeps(const RunDir& dir, const StartFile& source) {
  if (!dir.has_checkpoint(source.file)) return;
  throw Error(ErrorKind::kConfig, cat("--overwrite would remove ", source.option, " ", source.file),
              "copy it out of the folder first, or choose another --output");
}

}  // namespace retina
