#include "shared/comm/link_probe.h"

#include "shared/base/error.h"

namespace retina {

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

}  // namespace retina
