// mpirun -np N build/bin/bench_allreduce --max-bytes 64MiB: all-reduces from 8 B to 64 MiB in both
// modes and the wire types. Rank 0 prints one line of JSON a result, nccl-tests' bandwidths in it,
// and one for the α-β model fitted to each mode and type.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/version.h"
#include "shared/job/rank_program.h"
#include "train/reduce/link_model.h"
#include "train/reduce/link_probe.h"

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
    ProbeOptions probe{.repeats = options_.repeats,
                       .warm_ups = options_.warm_ups,
                       .type = type,
                       .ordered = ordered};
    const auto factor = static_cast<std::uint64_t>(options_.factor);
    for (std::uint64_t bytes = options_.min_bytes; bytes < options_.max_bytes; bytes *= factor) {
      probe.sizes_bytes.push_back(bytes);
    }
    probe.sizes_bytes.push_back(options_.max_bytes);
    const auto samples = measure_all_reduce(ranks_, probe);
    if (!ranks_.is_root()) return;
    std::map<double, std::vector<double>> by_size;
    for (const auto& sample : samples) by_size[sample.bytes].push_back(sample.seconds);
    for (auto& [bytes, seconds] : by_size) print_size(probe, bytes, seconds);
    if (ranks_.size() > 1 && by_size.size() > 1) print_fit(probe, fit_ring(samples, ranks_.size()));
  }

 private:
  void begin(JsonWriter& json, const char* result, const ProbeOptions& probe) const {
    json.begin_object().field("bench", "allreduce").field("result", result);
    json.field("mode", probe.ordered ? "ordered" : "ring").field("type", element_name(probe.type));
    json.field("ranks", ranks_.size()).field("ranks_per_node", ranks_.local_size());
  }

  void print(JsonWriter& json) const {
    json.field("command", command_).field("version", kProjectVersion);
    json.field("revision", kGitRevision).field("mpi", mpi_library_version()).end_object();
    std::cout << json.text() << std::endl;
  }

  void print_size(const ProbeOptions& probe, double bytes, std::vector<double>& seconds) const {
    std::sort(seconds.begin(), seconds.end());
    const double median = seconds[seconds.size() / 2];
    const OperationStats one{
        .calls = 1, .bytes = static_cast<std::int64_t>(bytes), .seconds = median};
    JsonWriter json;
    begin(json, "size", probe);
    json.field("bytes", one.bytes).field("repeats", options_.repeats);
    json.field("seconds_median", median).field("seconds_min", seconds.front());
    json.field("seconds_max", seconds.back());
    json.field("algorithm_bytes_per_second", algorithm_bandwidth(one));
    json.field("bus_bytes_per_second", all_reduce_bus_bandwidth(one, ranks_.size()));
    print(json);
  }

  void print_fit(const ProbeOptions& probe, const RingFit& fit) const {
    JsonWriter json;
    begin(json, "fit", probe);
    json.field("latency_seconds", fit.link.latency_seconds);
    json.field("bytes_per_second", fit.link.bytes_per_second);
    json.field("median_relative_error", fit.median_relative_error);
    json.field("worst_relative_error", fit.worst_relative_error);
    json.key("left_out_bytes").begin_array();
    for (const double bytes : fit.left_out_bytes) json.value(bytes);
    json.end_array();
    print(json);
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
  cli.validate([&] { options.validate(); });
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
