// --scaling-report DIR: how a training scales. Each run with it measures on its own number of ranks
// and adds that to DIR/scaling.json; runs on 1, 2, 4, ... ranks with otherwise the same options and
// the same images a rank fill it. DIR/scaling.html shows images/s, efficiency and the length of an
// epoch, the model fitted to them (scaling_model.h), and its projection to 1024 ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/settings.h"
#include "shared/comm/communicator.h"
#include "train/reduce/wire.h"
#include "train/scaling/scaling_model.h"

namespace retina {

// What must be equal for runs to be compared: option or property -> value.
using ScalingSetup = SettingValues;

struct ScalingRun {
  ScalingPoint point = {};
  int nodes = 1;
  std::int64_t step_count = 0;  // that the medians are of
  double images_per_second = 0;
};

struct ScalingData {
  ScalingSetup setup = {};
  double images_per_rank = 0, images_per_epoch = 0;
  bool sums_by_nccl = false;          // the gradients'; samples of links are of the host's network
  std::vector<ScalingRun> runs = {};  // ascending ranks, one each
};

// scaling.json: the measurements, and for people the model and its projections.
std::string scaling_json(const ScalingData& data);
// Throws Error{kData}.
ScalingData scaling_from_json(const std::string& text, const std::string& name);

std::string scaling_html(const ScalingData& data);

class ScalingReport {
 public:
  // Rank 0 opens DIR and what earlier runs left there. Throws kConfig when they ran with another
  // setup, kCannotCreate, kData. Before the training: an impossible comparison is refused early.
  ScalingReport(const std::string& folder, const ScalingData& own, Communicator& communicator);

  // Measures the links as `wire` uses them, adds the run and writes both files; a run on the same
  // number of ranks is replaced. False, and nothing is done, for a run without a step. `run` is
  // used on rank 0, its step_count and bucket_bytes on all. Collective. Throws kIo.
  bool add(ScalingRun run, const WireOptions& wire, Communicator& communicator);

 private:
  std::string folder_;
  ScalingData data_;
};

}  // namespace retina
