#include "shared/comm/metered_communicator.h"

#include "shared/base/error.h"
#include "shared/base/measure.h"

namespace retina {

double MeteredCommunicator::clock_seconds() const {
  return now_seconds();
}

template <class F>
void MeteredCommunicator::meter(OperationStats& stats, std::size_t bytes, const F& call) {
  const double start = clock_seconds();
  call();
  stats.seconds += clock_seconds() - start;
  stats.bytes += static_cast<std::int64_t>(bytes);
  ++stats.calls;
}

void MeteredCommunicator::check_root(int root) const {
  RETINA_CHECK(root >= 0 && root < size(), "root ", root, " of ", size(), " ranks");
}

void MeteredCommunicator::all_reduce(void* data, std::size_t count, ElementType type, ReduceOp op) {
  RETINA_CHECK(data != nullptr || count == 0, "all_reduce without a buffer");
  meter(stats_.all_reduce, count * element_size_bytes(type),
        [&] { do_all_reduce(data, count, type, op); });
}

void MeteredCommunicator::all_reduce_ordered(void* data, std::size_t count, ElementType type) {
  RETINA_CHECK(data != nullptr || count == 0, "all_reduce_ordered without a buffer");
  meter(stats_.all_reduce_ordered, count * element_size_bytes(type),
        [&] { do_all_reduce_ordered(data, count, type); });
}

void MeteredCommunicator::broadcast(void* data, std::size_t count, ElementType type, int root) {
  RETINA_CHECK(data != nullptr || count == 0, "broadcast without a buffer");
  check_root(root);
  meter(stats_.broadcast, count * element_size_bytes(type),
        [&] { do_broadcast(data, count, type, root); });
}

std::vector<std::string> MeteredCommunicator::gather(const std::string& bytes, int root) {
  check_root(root);
  std::vector<std::string> all;
  meter(stats_.gather, bytes.size(), [&] { all = do_gather(bytes, root); });
  return all;
}

void MeteredCommunicator::barrier() {
  meter(stats_.barrier, 0, [&] { do_barrier(); });
}

}  // namespace retina
