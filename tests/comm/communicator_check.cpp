// Run by ctest under mpirun on 1, 2 and 3 ranks, and alone: every back end keeps the promises of
// communicator.h. Prints what broke and ends with 1.
#include "shared/comm/communicator.h"

#include <iostream>
#include <numeric>
#include <vector>

namespace {

int g_failures = 0;

#define EXPECT(condition)                                                     \
  do {                                                                        \
    if (!(condition)) {                                                       \
      std::cerr << __FILE__ << ":" << __LINE__ << ": " << #condition << "\n"; \
      ++g_failures;                                                           \
    }                                                                         \
  } while (false)

template <class T>
void check_sum(retina::Communicator& comm, retina::ElementType type, std::size_t count) {
  // Small integers: the sum is exact in every type, whatever the order of additions.
  const auto rank = static_cast<std::size_t>(comm.rank());
  std::vector<T> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<T>((i % 17 + 1) * (rank + 1));
  comm.all_reduce(data.data(), count, type, retina::ReduceOp::kSum);
  const auto size = static_cast<std::size_t>(comm.size());
  bool good = true;
  for (std::size_t i = 0; i < count; ++i)
    good &= data[i] == static_cast<T>((i % 17 + 1) * (size * (size + 1) / 2));
  EXPECT(good);
}

}  // namespace

int main() {
  retina::MpiSession session;
  const auto comm = retina::make_communicator(session);
  for (const std::size_t count : {0UL, 1UL, 2UL, 3UL, 1000UL, 300001UL}) {
    check_sum<float>(*comm, retina::ElementType::kFloat32, count);
    check_sum<double>(*comm, retina::ElementType::kFloat64, count);
    check_sum<std::int64_t>(*comm, retina::ElementType::kInt64, count);
  }
  EXPECT(comm->all_reduce_max(comm->rank()) == comm->size() - 1);
  EXPECT(comm->all_reduce_sum(2) == 2 * comm->size());
  const std::string text = comm->broadcast(comm->is_root() ? "from rank 0" : "", 0);
  EXPECT(text == "from rank 0");
  const auto all =
      comm->gather(std::string(static_cast<std::size_t>(comm->rank()) * 70000, 'x'), 0);
  EXPECT(all.size() == (comm->is_root() ? static_cast<std::size_t>(comm->size()) : 0U));
  for (std::size_t rank = 0; rank < all.size(); ++rank) EXPECT(all[rank].size() == rank * 70000);
  EXPECT(comm->local_rank() == comm->rank() && comm->local_size() == comm->size());
  comm->barrier();
  session.finish();
  return g_failures == 0 ? 0 : 1;
}
