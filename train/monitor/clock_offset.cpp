#include "train/monitor/clock_offset.h"

#include <limits>
#include <vector>

#include "shared/base/error.h"

namespace retina {

ClockOffset measure_clock_offset(Communicator& communicator,
                                 const std::function<std::int64_t()>& clock_ns, int rounds) {
  RETINA_CHECK(rounds >= 1, rounds);
  const auto ranks = static_cast<std::size_t>(communicator.size());
  std::vector<std::int64_t> found(2 * ranks, 0);  // ahead, error of each rank
  for (std::size_t r = 1; r < ranks; ++r) {
    std::int64_t shortest_ns = std::numeric_limits<std::int64_t>::max();
    for (int round = 0; round < rounds; ++round) {
      std::uint8_t ping = 0;
      const std::int64_t t0 = clock_ns();
      communicator.broadcast(&ping, 1, ElementType::kUint8, 0);
      std::int64_t s = clock_ns();
      communicator.broadcast(&s, 1, ElementType::kInt64, static_cast<int>(r));
      const std::int64_t t1 = clock_ns();
      if (t1 - t0 >= shortest_ns) continue;
      shortest_ns = t1 - t0;
      found[2 * r] = s - (t0 + (t1 - t0) / 2);
      found[2 * r + 1] = (t1 - t0 + 1) / 2;
    }
  }
  communicator.broadcast(found.data(), found.size(), ElementType::kInt64, 0);
  const auto own = 2 * static_cast<std::size_t>(communicator.rank());
  return {.ahead_ns = found[own], .error_ns = found[own + 1]};
}

}  // namespace retina
