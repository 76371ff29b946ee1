#include "train/reduce/link_probe.h"

#include <algorithm>
#include <limits>

#include "shared/base/error.h"

namespace retina {
namespace {

constexpr std::size_t kLeastBytes = std::size_t{4} << 10, kMostBytes = std::size_t{16} << 20;
constexpr std::size_t kFactor = 2;
// What is fitted: sizes near those of buckets. Small ones measure other ways to sum (mpi_ring.h).
constexpr std::size_t kSpread = 64;
constexpr int kRepeats = 3;
constexpr std::size_t kEmptyBytes = 8;

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
  ProbeOptions options{.type = probe.type, .ordered = probe.ordered};
  const auto measure = [&](std::size_t bytes, int repeats, int warm_ups) {
    options.sizes_bytes = {bytes};
    options.repeats = repeats;
    options.warm_ups = warm_ups;
    std::vector<AllReduceSample> samples = measure_all_reduce(communicator, options);
    // No time at all says nothing about a link.
    for (AllReduceSample& sample : samples) sample.seconds = std::max(sample.seconds, 1e-9);
    return samples;
  };
  // All ranks know the same times, so all stop at the same size.
  std::size_t most = kLeastBytes;
  measure(most, 1, 1);
  double seconds = 0;
  const auto is_affordable = [&](double next) {
    return 2 * (kRepeats + 1) * next < probe.budget_seconds;
  };
  do {
    most *= kFactor;
    seconds = measure(most, 1, 0).front().seconds;
  } while (most < kMostBytes && is_affordable(kFactor * seconds));
  // Down again without a pause: a shaped link has by now spent the burst that it lets pass at once.
  std::vector<AllReduceSample> samples;
  for (std::size_t bytes = most; bytes >= std::max(kLeastBytes, most / kSpread); bytes /= kFactor) {
    for (const AllReduceSample& sample : measure(bytes, kRepeats, 0)) samples.push_back(sample);
  }
  RingFit fit = fit_ring(samples, communicator.size());
  // The large sizes hardly show the latency; no message takes less than an empty one.
  double least = std::numeric_limits<double>::infinity();
  for (const AllReduceSample& sample : measure(kEmptyBytes, kRepeats, 0)) {
    least = std::min(least, sample.seconds / (2 * (communicator.size() - 1)));
  }
  fit.link.latency_seconds = std::max(fit.link.latency_seconds, least);
  return fit;
}

}  // namespace retina
