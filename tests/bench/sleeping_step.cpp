// mpirun -np N build/bin/bench_sleeping_step --measured DIR/scaling.json: training steps whose
// computing is replaced by a sleep as long as one rank's measured step, so that more ranks can run
// than there are processors. The rest is real: buckets of the measured sizes go through the
// communication thread in their order, each when backward had filled it, then the losses' sum.
// `--measured` is what `retina-train --scaling-report DIR` wrote on one rank. Rank 0 prints one
// line of JSON.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/version.h"
#include "shared/job/rank_program.h"
#include "train/reduce/collective_queue.h"

namespace {

using namespace retina;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Of the run on one rank.
struct MeasuredStep {
  double own_seconds = 0;      // sleep in all
  double overlap_seconds = 0;  // its end, in which the buckets leave
  std::vector<std::size_t> bucket_bytes = {};
  double images = 0;
};

MeasuredStep read_measured(const std::string& path) {
  const JsonFile file = JsonFile::read(path);
  const JsonView runs = file.root().at("runs");
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const JsonView run = runs.at(i);
    if (run.at("ranks").as_int() != 1) continue;
    MeasuredStep step{.own_seconds = run.at("own_seconds").as_double(),
                      .overlap_seconds = run.at("overlap_seconds").as_double(),
                      .images = file.root().at("images_per_rank").as_double()};
    const JsonView bytes = run.at("bucket_bytes");
    for (std::size_t b = 0; b < bytes.size(); ++b) {
      step.bucket_bytes.push_back(static_cast<std::size_t>(bytes.at(b).as_double()));
    }
    if (step.bucket_bytes.empty()) run.fail("no buckets");
    return step;
  }
  runs.fail("no run on one rank");
}

class Bench {
 public:
  Bench(const MeasuredStep& step, Communicator& ranks) : step_(step), ranks_(ranks) {
    for (const std::size_t bytes : step.bucket_bytes) buckets_.emplace_back(bytes / sizeof(float));
  }

  // Seconds of each step on this rank.
  std::vector<double> run(int steps) {
    std::vector<double> seconds;
    CollectiveQueue queue(ranks_);
    for (int i = 0; i < steps; ++i) {
      ranks_.barrier();
      const Clock::time_point begin = Clock::now();
      for (std::size_t b = 0; b < buckets_.size(); ++b) {
        std::this_thread::sleep_until(
            begin + std::chrono::duration_cast<Clock::duration>(Seconds(filled_at(b))));
        queue.push([this, b](Communicator& ranks) {
          ranks.all_reduce(buckets_[b].data(), buckets_[b].size(), ElementType::kFloat32,
                           ReduceOp::kSum);
        });
      }
      queue.wait();
      double sums[4] = {};
      ranks_.all_reduce(sums, std::size(sums), ElementType::kFloat64, ReduceOp::kSum);
      seconds.push_back(Seconds(Clock::now() - begin).count());
    }
    return seconds;
  }

 private:
  // The first bucket leaves when the overlap begins, the last when the computing ends.
  double filled_at(std::size_t bucket) const {
    const auto last = static_cast<double>(buckets_.size() - 1);
    const double place = buckets_.size() == 1 ? 1 : static_cast<double>(bucket) / last;
    return step_.own_seconds - step_.overlap_seconds * (1 - place);
  }

  const MeasuredStep step_;
  Communicator& ranks_;
  std::vector<std::vector<float>> buckets_;
};

int measure(const std::string& path, int steps, Communicator& ranks) {
  const MeasuredStep step = read_measured(path);
  std::vector<double> seconds = Bench(step, ranks).run(steps + 1);
  seconds.erase(seconds.begin());  // connections
  std::sort(seconds.begin(), seconds.end());
  double median = seconds[seconds.size() / 2];
  ranks.all_reduce(&median, 1, ElementType::kFloat64, ReduceOp::kMax);
  if (!ranks.is_root()) return 0;
  double bytes = 0;
  for (const std::size_t bucket : step.bucket_bytes) bytes += static_cast<double>(bucket);
  JsonWriter json;
  json.begin_object().field("bench", "sleeping_step").field("ranks", ranks.size());
  json.field("ranks_per_node", ranks.local_size()).field("steps", steps);
  json.field("slept_seconds", step.own_seconds).field("overlap_seconds", step.overlap_seconds);
  json.field("buckets", static_cast<std::int64_t>(step.bucket_bytes.size())).field("bytes", bytes);
  json.field("step_seconds_median", median);
  json.field("images_per_second", step.images * ranks.size() / median);
  json.field("version", kProjectVersion).field("revision", kGitRevision);
  std::cout << json.field("mpi", mpi_library_version()).end_object().text() << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string measured;
  int steps = 10;
  Cli cli("bench_sleeping_step", "mpirun -np N bench_sleeping_step --measured DIR/scaling.json",
          "Measures steps whose computing is a sleep as long as a measured one.");
  cli.option("measured", measured, "FILE", "scaling.json with a run on one rank (required)");
  cli.option("steps", steps, "N", "measured steps");
  cli.validate([&](const Cli&) {
    if (measured.empty()) throw Error(ErrorKind::kUsage, "--measured is missing");
    if (steps < 1) throw Error(ErrorKind::kUsage, "--steps: too few (want at least 1)");
  });
  return run_rank_program("bench_sleeping_step", cli, argc, argv,
                          [&](Communicator& ranks) { return measure(measured, steps, ranks); });
}
