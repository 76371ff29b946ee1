#include "train/continuation.h"

#include "shared/base/error.h"
#include "shared/base/json.h"

namespace retina {

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
  if (text.empty()) return;
  throw Error(ErrorKind::kConfig, cat(found.path, ": its run had other settings: ", text),
              "resume with the same data and options, or start afresh with --init");
}

}  // namespace retina
