// Measures the speed of a run and each rank's time, and finds the rank that the others wait for. A
// slow rank does not show in the common step time: it waits for no other rank, and all others wait
// for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/json.h"
#include "shared/comm/communicator.h"
#include "shared/report/report.h"

namespace retina {

// One kind of a rank's time over some steps.
struct TimeShare {
  double median_ms = 0;  // median over steps
  double sum_ms = 0;
};

struct RankTimes {
  int rank = 0;
  std::string node = {};
  double images = 0;         // images of its median step; 0: not known, as many as the others
  TimeShare compute = {};    // forward, backward, update: the rest of the step
  TimeShare data_wait = {};  // time spent waiting for the loader
  TimeShare comm_wait = {};  // waiting for the gradients of all ranks, including slower ones

  double own_ms() const { return compute.median_ms + data_wait.median_ms; }
  // Returns the time by which ranks are compared: with uneven shares a larger one takes longer.
  double own_ms_per_image() const { return per_image(own_ms()); }
  double per_image(double step_ms) const { return images > 0 ? step_ms / images : step_ms; }
};

// A step as one rank saw it.
struct RankStep {
  int images = 0;  // this rank's images
  double step_ms = 0, data_wait_ms = 0, comm_wait_ms = 0;
};

// Times of this rank's steps since the last `gather`.
class RankLedger {
 public:
  void add(const RankStep& step);
  std::int64_t step_count() const { return static_cast<std::int64_t>(compute_ms_.size()); }

  // Returns all ranks' times in rank order on rank 0, nothing elsewhere, and empties the ledger.
  // Collective.
  std::vector<RankTimes> gather(Communicator& communicator);

 private:
  std::vector<double> images_, compute_ms_, data_wait_ms_, comm_wait_ms_;
};

struct Straggler {
  int rank = 0;
  std::string node = {};
  double own_ms = 0;            // compute and data wait of its median step
  double median_ms = 0;         // time of the median rank for as many images
  double others_wait_ms = 0;    // wait of the others' median rank in the median step, minus its own
  bool waits_for_data = false;  // false: it computes longer
};

// Returns the slowest rank over 8 steps or more, if its own time per image is more than 10 % above
// the median rank's and the others wait at least half of that difference longer for gradients than
// it does: a rank whose delay hides behind the others' communication costs nothing. Takes medians
// over steps, so single bad steps do not count.
std::optional<Straggler> find_straggler(const std::vector<RankTimes>& ranks,
                                        std::int64_t step_count);

// The speed of a run's steps, in all and rank by rank.
class Throughput {
 public:
  // Adds a step: its images on all ranks, and this rank's part of it.
  void add(std::int64_t images_global, const RankStep& own) {
    steps_.push_back({images_global, own});
  }

  // Returns lines for the user; the first steps, while caches fill, do not count. Rank 0 gets the
  // text, the others nothing. Collective.
  std::string summary(Communicator& communicator) const;

 private:
  std::vector<std::pair<std::int64_t, RankStep>> steps_;
};

// Returns "rank 3 (node-b) is slow: ..." for the log.
std::string straggler_text(const Straggler& straggler);

// Returns a table for the report: slowest ranks per image first.
Table rank_table(const std::vector<RankTimes>& ranks, std::int64_t step_count);

// Convert to and from JSON, with the keys of metrics.jsonl.
std::string to_json(const RankTimes& times);
RankTimes rank_times_from(const JsonView& json);

}  // namespace retina
