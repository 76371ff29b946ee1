#include "train/continuation.h"

#include <utility>

#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/checkpoint/sealed_file.h"

namespace retina {
namespace {

// How many of the backbone's layers learn also follows from --init, where --norm does not.
std::string change_of_layers(const JsonView& before, const TrainOptions& options) {
  const bool had_weights = before.has("init") && names_weights(before.at("init").as_string());
  if (options.trainable_layers || had_weights != options.from_scratch()) return "";
  return cat("init (was ", had_weights ? "given" : "unset", ", now ",
             had_weights ? "unset" : "given", ": other layers would learn)");
}

}  // namespace

void check_continues(const Found& found, const TrainOptions& options, const RunConfig& config,
                     const TrainingSet& train) {
  FixedOptions now = fixed_options(config);
  now.erase(kInitKey);
  std::string text =
      differences(fixed_options_of_checkpoint(found.checkpoint.config_json,
                                              found.checkpoint.trainer_json, found.path),
                  now);
  // The norm follows from --init, which may change.
  const JsonFile stored = JsonFile::parse(found.checkpoint.config_json, found.path);
  const std::string before = ModelConfig::from_json(stored.root().at("model")).to_json();
  const std::string model = options.model_config(train.class_count()).to_json();
  if (text.empty() && before != model) text = cat("the model (was ", before, ", now ", model, ")");
  if (text.empty()) text = change_of_layers(stored.root().at("train"), options);
  if (text.empty()) return;
  throw Error(ErrorKind::kConfig, cat(found.path, ": its run had other settings: ", text),
              "resume with the same data and options, or start afresh with --init");
}

void check_asked_for(const RunDir& dir, const Found& newest, const TrainOptions& options) {
  const std::uint64_t asked = read_seal(options.resume, "checkpoint");
  if (asked == read_seal(newest.path, "checkpoint") || hex64(asked) == dir.resume_fingerprint()) {
    return;
  }
  throw Error(ErrorKind::kConfig,
              cat(options.output, ": holds a run that stands at ", newest.path,
                  ", not at --resume ", options.resume),
              "continue it with --resume auto, or give --resume FILE with another --output");
}

void check_keeps_sources(const RunDir& dir, const TrainOptions& options) {
  for (const auto& [name, file] :
       {std::pair{"resume", options.resumes_file() ? options.resume : ""},
        std::pair{"init", options.from_scratch() ? "" : options.init}}) {
    if (file.empty() || !dir.has_checkpoint(file)) continue;
    throw Error(ErrorKind::kConfig, cat("--overwrite would remove --", name, " ", file),
                "copy it out of the folder first, or choose another --output");
  }
}

}  // namespace retina
