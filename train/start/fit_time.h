// Decides what depends on how fast this machine trains, by measured steps: --size auto,
// --precision auto, and the steps of a run that has to end in time (--for). A run that continues
// keeps what was decided when it began.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shared/cli/cli.h"
#include "train/start/job.h"
#include "train/start/step_speed.h"

namespace retina {

inline constexpr double kEndSeconds = 4;  // for the last checkpoint and the page
// Steps that a run with --for plans at least, unless they are slow: after half of them its pace is
// known.
inline constexpr std::int64_t kLeastTimedSteps = 4;

// Returns the time of a validation's image, which is in fp32, over that of a step's.
inline double forward_share(Precision precision) {
  return precision == Precision::kFp32 ? .4 : .8;
}

// Returns the mean pixels of an image of `index`, resized to `sides` and padded: to the largest of
// its step where --shuffle global mixes all images, else to its own kind.
double mean_pixels(const ImageIndex& index, const TrainOptions& options, const InputSides& sides);

// Returns the steps from one validation to the next; a huge number where only the end has one.
double steps_between_validations(const TrainOptions& options, std::int64_t epoch_steps);

// Returns how many steps, with a validation after each `period` of them and one at the end, fit
// into so many seconds, `since` steps after a validation; it may be negative.
double fitting_steps(double seconds, double step_s, double validation_s, double period,
                     double since = 0);

// Sets the threads of a layer. Threads wait for each other at each layer, and for their turns where
// other programs want the cores: in a run with --for of one rank on a CPU, without
// --compute-threads, a layer takes only as many as find a core, which is measured by 0.05 s of
// work. Returns whether the number has changed.
bool use_free_cores(const TrainOptions& options, const Job& job);

// References must outlive this. Rank 0.
struct TimeFit {
  // Decides, for a detector that begins on a CPU without a recipe or a size, the size, the images
  // of a step and the image size, which must be known before the rest of the defaults. With a
  // backbone, by --backbone or --init, only --size auto does so, among the sizes that have it.
  // Returns a note, or "". Throws kUsage where none has it.
  std::string choose_size();
  // Decides the precision. Returns a note, or "".
  std::string choose_precision();
  // Decides the steps of a run with --for. Returns a note: how long the run takes; "" where it
  // could not be measured.
  std::string choose_length(const TrainingPlan& plan);

  bool can_measure() const;
  // Measures on small images, in all precisions that are open, then at the images' own mean of
  // `pixels` where that is short and an image may take `most_image_s`.
  StepSpeed measure(TrainOptions tried, double pixels, double most_image_s = 1e9) const;
  double pixels() const;  // mean_pixels() of the run

  Cli& cli;
  TrainOptions& options;
  const Job& job;
  const RunStart& start;
  std::optional<StepSpeed> speed = {};  // of the decided network
};

}  // namespace retina
