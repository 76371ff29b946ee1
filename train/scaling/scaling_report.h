// --scaling-report DIR: shows how a training scales. Each run with it adds its measurements on its
// own number of ranks to DIR/scaling.json; runs on 1, 2, 4, ... ranks with otherwise the same
// options and the same images a rank fill it. DIR/scaling.html shows images/s, efficiency, the
// length of an epoch and how long a step waits for gradients.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/output.h"
#include "shared/comm/communicator.h"

namespace retina {

// The settings that runs must share to be compared: option or property -> value.
using ScalingSetup = SettingValues;

// Measurements on one number of ranks. Times are medians over steps, of the slowest rank.
struct ScalingRun {
  int ranks = 1;
  int nodes = 1;
  std::int64_t step_count = 0;  // steps of the medians
  double images_per_second = 0;
  double step_seconds = 0;
  double own_seconds = 0;                 // without waiting for gradients
  double overlap_seconds = 0;             // backward computing while buckets travel
  double comm_seconds = 0;                // the gradients' all-reduces
  std::vector<double> bucket_bytes = {};  // in the order in which they leave

  double exposed_seconds() const { return step_seconds - own_seconds; }
};

struct ScalingData {
  ScalingSetup setup = {};
  double images_per_rank = 0, images_per_epoch = 0;
  std::vector<ScalingRun> runs = {};  // ascending ranks, one each
};

// Returns the text of scaling.json.
std::string scaling_json(const ScalingData& data);
// Parses scaling.json. Throws Error{kData}.
ScalingData scaling_from_json(const std::string& text, const std::string& name);

// Returns images/s of a rank over those of a rank in the smallest run; 1 is perfect.
double efficiency(const ScalingData& data, const ScalingRun& run);

std::string scaling_html(const ScalingData& data);

class ScalingReport {
 public:
  // Opens DIR and the results of earlier runs, on rank 0. Throws kConfig when they ran with another
  // setup, kCannotCreate, kData. Made before the training, so that an impossible comparison is
  // refused early.
  ScalingReport(const std::string& folder, const ScalingData& own, Communicator& communicator);

  // Adds the run and writes both files; a run on the same number of ranks is replaced. Returns
  // false, and does nothing, for a run without a step. `run` is used on rank 0, its step_count on
  // all. Collective. Throws kIo.
  bool add(ScalingRun run, Communicator& communicator);

 private:
  std::string folder_;
  ScalingData data_;
};

}  // namespace retina
