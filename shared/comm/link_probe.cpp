#include "shared/comm/link_probe.h"

#include <algorithm>
#include <limits>

#include "shared/base/error.h"

namespace retina {
namespace {

constexpr std::size_t kLeastBytes = std::size_t{4} << 10, kMostBytes = std::size_t{16} << 20;
constexpr std::size_t kFactor = 4;

}  // namespace

std::vector<AllReduceSample> measure_all_reduce(Communicator& communicator,
                                                const ProbeOptions& options) {
  RETINA_CHECK(options.repeats >= 1 && options.warm_ups >= 0);
  const CommStats& stats = communicator.stats();
  const OperationStats& spent = options.ordered ? stats.all_reduce_ordered : stats.all_reduce;
  std::vector<AllReduceSample> samples;
  std::vector<char> data;
  for (const std::size_t size : options.sizes_bytes) {
    const std::size_t count = size / element_size_bytes(options.type);
    data.assign(count * element_size_bytes(options.type), 0);  // zeros: no overflow, no subnormals
    std::vector<double> seconds;
    for (int repeat = -options.warm_ups; repeat < options.repeats; ++repeat) {
      communicator.barrier();
      const double before = spent.seconds;
      if (options.ordered) {
        communicator.all_reduce_ordered(data.data(), count, options.type);
      } else {
        communicator.all_reduce(data.data(), count, options.type, ReduceOp::kSum);
      }
      if (repeat >= 0) seconds.push_back(spent.seconds - before);
    }
    communicator.all_reduce(seconds.data(), seconds.size(), ElementType::kFloat64, ReduceOp::kMax);
    for (const double time : seconds) {
      samples.push_back({.bytes = static_cast<double>(data.size()), .seconds = time});
    }
  }
  return samples;
}

RingFit probe_link(Communicator& communicator, const LinkProbe& probe) {
  RETINA_CHECK(communicator.size() > 1);
  ProbeOptions options{.repeats = 3, .type = probe.type, .ordered = probe.ordered};
  std::vector<AllReduceSample> samples;
  const int calls = options.repeats + options.warm_ups;
  double spent_seconds = 0;
  for (std::size_t bytes = kLeastBytes; bytes <= kMostBytes; bytes *= kFactor) {
    options.sizes_bytes = {bytes};
    // The fastest: what delays a rank (other programs on its cores) says nothing of the link.
    double fastest = std::numeric_limits<double>::infinity();
    for (const AllReduceSample& sample : measure_all_reduce(communicator, options)) {
      fastest = std::min(fastest, sample.seconds);
      spent_seconds += sample.seconds * calls / options.repeats;
    }
    // A virtual link (thread_world.h) may cost nothing.
    samples.push_back({.bytes = static_cast<double>(bytes), .seconds = std::max(fastest, 1e-9)});
    // All ranks know the same times and stop at the same size.
    const bool is_late = spent_seconds + fastest * calls * kFactor > probe.budget_seconds;
    if (bytes > kLeastBytes && is_late) break;
  }
  return fit_ring(samples, communicator.size());
}

}  // namespace retina
