// Decides the defaults that follow from the data when no recipe, or one of ours, is named: recipe,
// length, schedule and learning rate. Rank 0 decides before a run begins, all ranks apply its
// decision. A continued run keeps its initial values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/cli/cli.h"
#include "train/start/options.h"

namespace retina {

// Number of images below which a detector that is not trained yet gets the recipe `small`.
inline constexpr std::int64_t kSmallSetImages = 3000;

// Facts that the defaults follow from.
struct RunStart {
  std::int64_t image_count = 0, steps_per_epoch = 1;
  bool has_tiles = false;     // `image_count` is that of tiles with boxes
  bool has_detector = false;  // --init brings a detector, with pyramid and heads
  // Options of the run that continues, as a command line would have them; unset: a new run.
  std::optional<OptionTexts> before = {};
};

// Sets the recipe, the length and the options that depend on them, unless they are given, in
// `options`, which `cli` has parsed. Returns what was chosen and why, a line each. Throws kConfig
// for a recipe without the weights that it begins with.
std::vector<std::string> decide_run(Cli& cli, TrainOptions& options, const RunStart& start);

// Returns a learning rate as text with four significant digits.
std::string rate_text(double rate);

// Returns the run's length and learning rate in words: "105 epochs of 19 steps, 1995 steps in all;
// ...".
std::string length_text(const TrainOptions& options, std::int64_t steps_per_epoch);

// Returns a warning if the run ends within its warm-up; else "".
std::string warmup_warning(const TrainOptions& options, std::int64_t steps_per_epoch);

// Returns, for a run that continues at `step` with another length, what changes from there on.
// Empty when the lengths are equal.
std::string length_change_text(const ScheduleOptions& before, const ScheduleOptions& now,
                               std::int64_t step);

}  // namespace retina
