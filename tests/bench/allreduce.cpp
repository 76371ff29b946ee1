// mpirun -np N build/bin/bench_allreduce --max-bytes 64MiB: all-reduces from 8 B to 64 MiB in both
// modes and the wire types. Rank 0 prints one line of JSON a result, nccl-tests' bandwidths in it.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/version.h"
#include "shared/job/rank_program.h"

namespace {

using namespace retina;

struct BenchOptions {
  std::uint64_t min_bytes = 8;
  std::uint64_t max_bytes = std::uint64_t{64} << 20;
  int factor = 8;  // from one size to the next
  int repeats = 5;
  int warm_ups = 2;
  std::string mode = "all", type = "all";

  void validate() const {
    if (min_bytes < 8) throw Error(ErrorKind::kUsage, "--min-bytes: too few (want at least 8)");
    if (max_bytes < min_bytes) {
      throw Error(ErrorKind::kUsage, "--max-bytes: less than --min-bytes");
    }
    if (factor < 2) throw Error(ErrorKind::kUsage, "--factor: too small (want at least 2)");
    if (repeats < 1) throw Error(ErrorKind::kUsage, "--repeats: too few (want at least 1)");
    if (warm_ups < 0) throw Error(ErrorKind::kUsage, "--warm-ups: negative");
  }
};

class Bench {
 public:
  Bench(BenchOptions options, std::string command, Communicator& ranks)
      : options_(options), command_(std::move(command)), ranks_(ranks) {}

  void measure(bool ordered, ElementType type) {
    const auto factor = static_cast<std::uint64_t>(options_.factor);
    for (std::uint64_t bytes = options_.min_bytes; bytes < options_.max_bytes; bytes *= factor) {
      print(ordered, type, seconds_of(bytes, ordered, type));
    }
    print(ordered, type, seconds_of(options_.max_bytes, ordered, type));
  }

 private:
  struct Times {
    std::int64_t bytes = 0;
    std::vector<double> seconds = {};  // of the slowest rank each
  };

  // A barrier before each keeps ranks' delays out.
  Times seconds_of(std::uint64_t bytes, bool ordered, ElementType type) {
    const CommStats& stats = ranks_.stats();
    const OperationStats& spent = ordered ? stats.all_reduce_ordered : stats.all_reduce;
    const std::size_t count = bytes / element_size_bytes(type);
    std::vector<char> data(count * element_size_bytes(type));  // zeros: no overflow, no subnormals
    Times times{.bytes = static_cast<std::int64_t>(data.size())};
    for (int repeat = -options_.warm_ups; repeat < options_.repeats; ++repeat) {
      ranks_.barrier();
      const double before = spent.seconds;
      if (ordered) {
        ranks_.all_reduce_ordered(data.data(), count, type);
      } else {
        ranks_.all_reduce(data.data(), count, type, ReduceOp::kSum);
      }
      if (repeat >= 0) times.seconds.push_back(spent.seconds - before);
    }
    ranks_.all_reduce(times.seconds.data(), times.seconds.size(), ElementType::kFloat64,
                      ReduceOp::kMax);
    return times;
  }

  void print(bool ordered, ElementType type, Times times) const {
    if (!ranks_.is_root()) return;
    std::sort(times.seconds.begin(), times.seconds.end());
    const double median = times.seconds[times.seconds.size() / 2];
    const OperationStats one{.calls = 1, .bytes = times.bytes, .seconds = median};
    JsonWriter json;
    json.begin_object().field("bench", "allreduce");
    json.field("mode", ordered ? "ordered" : "ring").field("type", element_name(type));
    json.field("ranks", ranks_.size()).field("ranks_per_node", ranks_.local_size());
    json.field("bytes", one.bytes).field("repeats", options_.repeats);
    json.field("seconds_median", median).field("seconds_min", times.seconds.front());
    json.field("seconds_max", times.seconds.back());
    json.field("algorithm_bytes_per_second", algorithm_bandwidth(one));
    json.field("bus_bytes_per_second", all_reduce_bus_bandwidth(one, ranks_.size()));
    json.field("command", command_).field("version", kProjectVersion);
    json.field("revision", kGitRevision).field("mpi", mpi_library_version()).end_object();
    std::cout << json.text() << std::endl;
  }

  const BenchOptions options_;
  const std::string command_;
  Communicator& ranks_;
};

}  // namespace

int main(int argc, char** argv) {
  BenchOptions options;
  Cli cli("bench_allreduce", "mpirun -np N bench_allreduce --max-bytes 64MiB [OPTIONS]",
          "Measures all-reduces; prints one line of JSON a result.");
  cli.bytes("min-bytes", options.min_bytes, "smallest buffer of a rank");
  cli.bytes("max-bytes", options.max_bytes, "largest");
  cli.option("factor", options.factor, "N", "from one size to the next");
  cli.option("repeats", options.repeats, "N", "measurements of each size");
  cli.option("warm-ups", options.warm_ups, "N", "all-reduces before them");
  cli.choice("mode", options.mode, plain_choices({"all", "ring", "ordered"}), "how sums are made");
  cli.choice("type", options.type, plain_choices({"all", "float32", "bfloat16", "float16"}),
             "of the elements");
  cli.validate([&](const Cli&) { options.validate(); });
  return run_rank_program("bench_allreduce", cli, argc, argv, [&](Communicator& ranks) {
    std::string command = argv[0];
    for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
    Bench bench(options, command, ranks);
    for (const bool ordered : {false, true}) {
      if (options.mode != "all" && ordered != (options.mode == "ordered")) continue;
      for (const ElementType type :
           {ElementType::kFloat32, ElementType::kBFloat16, ElementType::kFloat16}) {
        if (options.type != "all" && options.type != element_name(type)) continue;
        bench.measure(ordered, type);
      }
    }
    return 0;
  });
}
