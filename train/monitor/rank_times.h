// Where each rank's time goes, and which rank the others wait for. A slow rank hides in the common
// step time: it waits for nobody, all others wait for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/json.h"
#include "shared/comm/communicator.h"
#include "shared/report/report.h"

namespace retina {

// One kind of a rank's time over some steps.
struct TimeShare {
  double median_ms = 0;  // of a step
  double sum_ms = 0;
};

struct RankTimes {
  int rank = 0;
  std::string node = {};
  double images = 0;         // of its median step; 0: not known, as many as the others
  TimeShare compute = {};    // forward, backward, update: what is left of the step
  TimeShare data_wait = {};  // waiting for the loader
  TimeShare comm_wait = {};  // waiting for the gradients of all ranks, so for slower ranks too

  double own_ms() const { return compute.median_ms + data_wait.median_ms; }
  // What a rank is judged by: where shares are uneven the larger one takes longer.
  double own_ms_per_image() const { return per_image(own_ms()); }
  double per_image(double step_ms) const { return images > 0 ? step_ms / images : step_ms; }
};

// A step as one rank saw it.
struct RankStep {
  int images = 0;  // of its own
  double step_ms = 0, data_wait_ms = 0, comm_wait_ms = 0;
};

// This rank's steps since the last `gather`.
class RankLedger {
 public:
  void add(const RankStep& step);
  std::int64_t step_count() const { return static_cast<std::int64_t>(compute_ms_.size()); }

  // All ranks' times in rank order on rank 0, nothing elsewhere; the ledger is empty then.
  // Collective.
  std::vector<RankTimes> gather(Communicator& communicator);

 private:
  std::vector<double> images_, compute_ms_, data_wait_ms_, comm_wait_ms_;
};

struct Straggler {
  int rank = 0;
  std::string node = {};
  double own_ms = 0;     // compute and data wait of its median step
  double median_ms = 0;  // what the median rank takes for as many images
  double others_wait_ms =
      0;  // what the others' median rank waits in the median step, beyond its own
  bool waits_for_data = false;  // else it computes longer
};

// The slowest rank over 8 steps or more, when its own time per image is more than 10 % above the
// median rank's and the others wait at least half of that difference longer for gradients than it
// does: a rank whose delay hides behind the others' communication costs nothing. Medians over
// steps, so single bad steps do not count.
std::optional<Straggler> find_straggler(const std::vector<RankTimes>& ranks,
                                        std::int64_t step_count);

// "rank 3 (node-b) is slow: ..." for the log.
std::string straggler_text(const Straggler& straggler);

// For the report: slowest ranks per image first.
Table rank_table(const std::vector<RankTimes>& ranks, std::int64_t step_count);

// JSON in metrics.jsonl's words.
std::string to_json(const RankTimes& times);
RankTimes rank_times_from(const JsonView& json);

}  // namespace retina
