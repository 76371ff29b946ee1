#include "shared/comm/link_probe.h"

#include <algorithm>

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
  double spent_seconds = 0;
  for (std::size_t bytes = kLeastBytes; bytes <= kMostBytes; bytes *= kFactor) {
    options.sizes_bytes = {bytes};
    std::vector<double> times;
    for (const AllReduceSample& sample : measure_all_reduce(communicator, options)) {
      // A virtual link (thread_world.h) may cost nothing.
      samples.push_back({.bytes = sample.bytes, .seconds = std::max(sample.seconds, 1e-9)});
      times.push_back(sample.seconds);
    }
    // All ranks know the same times and stop at the same size. A rank that was not scheduled for a
    // while says nothing of the link: the median.
    std::nth_element(times.begin(), times.begin() + options.repeats / 2, times.end());
    const double seconds =
        times[static_cast<std::size_t>(options.repeats / 2)] * (options.repeats + options.warm_ups);
    spent_seconds += seconds;
    if (bytes > kLeastBytes && spent_seconds + seconds * kFactor > probe.budget_seconds) break;
  }
  return fit_ring(samples, communicator.size());
}

}  // namespace retina
