// What a run was started with, and how a continuation differs: config.json and the checkpoints hold
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shared/base/json.h"
#include "shared/base/output.h"
#include "shared/cli/cli.h"
#include "train/schedule/schedule.h"

namespace retina {

// What config.json holds.
struct RunConfig {
  std::vector<EffectiveOption> options = {};
  std::string train_fingerprint = {};  // TrainingSet::fingerprint
  std::string init_fingerprint = {};   // of the --init checkpoint; empty: not to be compared
  bool init_none = false;              // --init none: no run that began with weights continues
  // validation_identity() of the set that is measured on; empty: none
  std::string validation_fingerprint = {};
  std::string resume_fingerprint = {};  // of the --resume FILE that it began from; empty: none
  double effective_lr = 0;              // what its scaling made of --lr
  ScheduleOptions schedule = {};        // in steps; for people, not read back
};

inline constexpr const char* kTrainKey = "train_fingerprint";
inline constexpr const char* kInitKey = "init_fingerprint";
inline constexpr const char* kValidationKey = "validation_fingerprint";

// False for an --init of "none", from scratch on purpose, and for none given.
bool names_weights(const std::string& init);

// What distinguishes one measure of AP from another: the set's fingerprint and, where not all of it
// is validated on, how many of its `image_count` images are; `images` 0: all.
std::string validation_identity(const std::string& fingerprint, std::int64_t images,
                                std::size_t image_count);

// `options`: an object of all options, as config.json and checkpoints hold one.
OptionTexts option_texts(const JsonView& options);

// The options that decide the result and the fingerprints, as one JSON object.
std::string fixed_options_json(const RunConfig& config);

// Option or fingerprint -> its value as JSON.
using FixedOptions = SettingValues;

// Those of such an object.
FixedOptions fixed_options(const JsonView& object);
FixedOptions fixed_options(const RunConfig& config);
// Those of `now` as a checkpoint's run had them; --init is not among them. Throws kData; `name`
// names it there.
FixedOptions fixed_options_of_checkpoint(const std::string& config_json,
                                         const std::string& trainer_json, const RunConfig& now,
                                         const std::string& name);

// What differs (settings.h); empty when nothing does. A validation set differs only from another
// one, not from a missing one: then no two APs are compared. An unset norm differs from no other:
// which it is follows from --init, and is for the model to say.
std::string changed_options(FixedOptions before, FixedOptions now);

}  // namespace retina
