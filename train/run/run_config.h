// Settings that a run was started with, as config.json and the checkpoints hold them, and their
// differences from a continuation's.
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

// Contents of config.json.
struct RunConfig {
  std::vector<EffectiveOption> options = {};
  std::string train_fingerprint = {};  // TrainingSet::fingerprint
  std::string init_fingerprint = {};   // the --init checkpoint's; empty: not to be compared
  bool init_none = false;              // --init none: no run that began with weights continues
  // validation_identity() of the set that is measured on; empty: none
  std::string validation_fingerprint = {};
  std::string resume_fingerprint = {};  // that of the --resume FILE it began from; empty: none
  double effective_lr = 0;              // --lr after its scaling
  ScheduleOptions schedule = {};        // in steps; for people, not read back
};

inline constexpr const char* kTrainKey = "train_fingerprint";
inline constexpr const char* kInitKey = "init_fingerprint";
inline constexpr const char* kValidationKey = "validation_fingerprint";

// False for an --init of "none", from scratch on purpose, and for none given.
bool names_weights(const std::string& init);

// Returns what distinguishes one measure of AP from another: the set's fingerprint and, where not
// all of its `image_count` images are validated on, their number `images`; 0: all.
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

// Returns the text of differences() (output.h); empty when nothing differs. A validation set
// differs only from another one, not from a missing one: then no two APs are compared. An unset
// norm differs from no other: which it is follows from --init, and is for the model to say.
std::string changed_options(FixedOptions before, FixedOptions now);

}  // namespace retina
