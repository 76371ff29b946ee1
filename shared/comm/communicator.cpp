#include "shared/comm/communicator.h"

#include <iterator>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/measure.h"

namespace retina {
namespace {

struct Element {
  std::size_t size_bytes;
  const char *name, *short_name;
};

const Element& element(ElementType type) {
  static constexpr Element kElements[] = {{1, "uint8", "bytes"}, {8, "int64", "i64"},
                                          {4, "float32", "f32"}, {8, "float64", "f64"},
                                          {2, "float16", "f16"}, {2, "bfloat16", "bf16"}};
  static constexpr Element kUnknown = {8, "unknown", "unknown"};  // another process may send any
  const auto place = static_cast<std::size_t>(type);
  return place < std::size(kElements) ? kElements[place] : kUnknown;
}

class SelfCommunicator : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 1; }

 protected:
  void do_all_reduce(void*, std::size_t, ElementType, ReduceOp) override {}
  void do_all_reduce_ordered(void*, std::size_t, ElementType) override {}
  void do_broadcast(void*, std::size_t, ElementType, int) override {}
  std::vector<std::string> do_gather(const std::string& bytes, int) override { return {bytes}; }
  void do_barrier() override {}
};

}  // namespace

std::size_t element_size_bytes(ElementType type) {
  return element(type).size_bytes;
}

const char* element_name(ElementType type) {
  return element(type).name;
}

const char* element_short_name(ElementType type) {
  return element(type).short_name;
}

void Communicator::report_to(Activity& activity, std::function<void()> await_diagnosis) {
  activity_ = &activity;
  await_diagnosis_ = std::move(await_diagnosis);
}

double Communicator::clock_seconds() const {
  return now_seconds();
}

void Communicator::perform(Operation operation, OperationStats& stats,
                           const std::function<void()>& call) {
  operation.set_label(label_);
  if (activity_ != nullptr) activity_->begin(operation);
  const double start = clock_seconds();
  try {
    call();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kRankFailure) await_diagnosis();
    throw;
  }
  stats.seconds += clock_seconds() - start;
  stats.bytes += static_cast<std::int64_t>(operation.bytes());
  ++stats.calls;
  label_.clear();
  if (activity_ != nullptr) activity_->end();
}

void Communicator::check_root(int root) const {
  RETINA_CHECK(root >= 0 && root < size(), "root ", root, " of ", size(), " ranks");
}

void Communicator::all_reduce(void* data, std::size_t count, ElementType type, ReduceOp op) {
  RETINA_CHECK(data != nullptr || count == 0, "all_reduce without a buffer");
  perform({.kind = CollectiveKind::kAllReduce, .type = type, .reduce = op, .count = count},
          stats_.all_reduce, [&] { do_all_reduce(data, count, type, op); });
}

void Communicator::all_reduce_ordered(void* data, std::size_t count, ElementType type) {
  RETINA_CHECK(data != nullptr || count == 0, "all_reduce_ordered without a buffer");
  perform({.kind = CollectiveKind::kAllReduceOrdered, .type = type, .count = count},
          stats_.all_reduce_ordered, [&] { do_all_reduce_ordered(data, count, type); });
}

void Communicator::broadcast(void* data, std::size_t count, ElementType type, int root) {
  RETINA_CHECK(data != nullptr || count == 0, "broadcast without a buffer");
  check_root(root);
  perform({.kind = CollectiveKind::kBroadcast, .type = type, .root = root, .count = count},
          stats_.broadcast, [&] { do_broadcast(data, count, type, root); });
}

std::vector<std::string> Communicator::gather(const std::string& bytes, int root) {
  check_root(root);
  std::vector<std::string> all;
  perform({.kind = CollectiveKind::kGather, .root = root}, stats_.gather,
          [&] { all = do_gather(bytes, root); });
  stats_.gather.bytes += static_cast<std::int64_t>(bytes.size());
  return all;
}

void Communicator::barrier() {
  perform({.kind = CollectiveKind::kBarrier}, stats_.barrier, [&] { do_barrier(); });
}

std::int64_t Communicator::all_reduce_max(std::int64_t value) {
  all_reduce(&value, 1, ElementType::kInt64, ReduceOp::kMax);
  return value;
}

std::int64_t Communicator::all_reduce_sum(std::int64_t value) {
  all_reduce(&value, 1, ElementType::kInt64, ReduceOp::kSum);
  return value;
}

std::string Communicator::broadcast(const std::string& bytes, int root) {
  auto size_bytes = static_cast<std::int64_t>(bytes.size());
  broadcast(&size_bytes, 1, ElementType::kInt64, root);
  std::string copy = bytes;
  copy.resize(static_cast<std::size_t>(size_bytes));
  broadcast(copy.data(), copy.size(), ElementType::kUint8, root);
  return copy;
}

std::unique_ptr<Communicator> make_self_communicator() {
  return std::make_unique<SelfCommunicator>();
}

std::string rank_ranges(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t begin = 0, end = 0; begin < ranks.size(); begin = end) {
    const auto in_a_row = [&] {
      return ranks[end] == ranks[begin] + static_cast<int>(end - begin);
    };
    while (end < ranks.size() && in_a_row()) ++end;
    if (end - begin == 2) end = begin + 1;
    text += cat(begin == 0 ? "" : ", ", ranks[begin]);
    if (end - begin > 2) text += cat("-", ranks[end - 1]);
  }
  return text;
}

}  // namespace retina
