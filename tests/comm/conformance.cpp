#include "tests/comm/conformance.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "tests/comm/elements.h"

namespace retina {
namespace {

constexpr std::size_t kCounts[] = {0, 1, 2, 3, 7, 1023, 1025, 65537};

// Small integers: exact in every type, whatever the order of the additions.
double addend(std::size_t i, int rank) {
  return static_cast<double>(i % 5 + static_cast<std::size_t>(rank) % 3);
}

void sum_over_ranks(Communicator& comm, Elements& data, ElementType type, bool ordered) {
  if (ordered) {
    comm.all_reduce_ordered(data.data(), data.count(), type);
  } else {
    comm.all_reduce(data.data(), data.count(), type, ReduceOp::kSum);
  }
}

void sums_small_integers(Communicator& comm, Findings& findings, bool ordered) {
  for (const ElementType type : kAllTypes) {
    for (const std::size_t count : kCounts) {
      Elements data(type, count);
      for (std::size_t i = 0; i < count; ++i) data.set(i, addend(i, comm.rank()));
      sum_over_ranks(comm, data, type, ordered);
      bool good = true;
      for (std::size_t i = 0; i < count; ++i) {
        double want = 0;
        for (int rank = 0; rank < comm.size(); ++rank) want += addend(i, rank);
        good &= data.get(i) == want;
      }
      findings.expect(good, cat(count, " ", element_name(type)));
    }
  }
}

void all_reduce_sums_exactly(Communicator& comm, Findings& findings) {
  sums_small_integers(comm, findings, false);
}

void all_reduce_ordered_sums_exactly(Communicator& comm, Findings& findings) {
  sums_small_integers(comm, findings, true);
}

void all_reduce_takes_the_maximum(Communicator& comm, Findings& findings) {
  for (const ElementType type : kAllTypes) {
    // Negative numbers too where there are any.
    const double shift = type == ElementType::kUint8 ? 0 : -20;
    const auto value = [&](std::size_t i, int rank) {
      return static_cast<double>((i * 7 + static_cast<std::size_t>(rank) * 3) % 11) + shift;
    };
    for (const std::size_t count : kCounts) {
      Elements data(type, count);
      for (std::size_t i = 0; i < count; ++i) data.set(i, value(i, comm.rank()));
      comm.all_reduce(data.data(), count, type, ReduceOp::kMax);
      bool good = true;
      for (std::size_t i = 0; i < count; ++i) {
        double want = value(i, 0);
        for (int rank = 1; rank < comm.size(); ++rank) want = std::max(want, value(i, rank));
        good &= data.get(i) == want;
      }
      findings.expect(good, cat(count, " ", element_name(type)));
    }
  }
}

// More than a back end may send at once.
void large_buffers_sum_exactly(Communicator& comm, Findings& findings) {
  constexpr std::size_t kCount = (std::size_t{1} << 24) + 5;
  std::vector<std::uint8_t> data(kCount, static_cast<std::uint8_t>(comm.rank() + 1));
  const int sum = comm.size() * (comm.size() + 1) / 2;
  comm.all_reduce_ordered(data.data(), kCount, ElementType::kUint8);
  findings.expect(data == std::vector<std::uint8_t>(kCount, static_cast<std::uint8_t>(sum)),
                  "all_reduce_ordered");
}

void integer_sums_wrap(Communicator& comm, Findings& findings) {
  for (const bool ordered : {false, true}) {
    std::uint8_t small = 200;
    std::int64_t large = std::numeric_limits<std::int64_t>::max();
    if (ordered) {
      comm.all_reduce_ordered(&small, 1, ElementType::kUint8);
      comm.all_reduce_ordered(&large, 1, ElementType::kInt64);
    } else {
      comm.all_reduce(&small, 1, ElementType::kUint8, ReduceOp::kSum);
      comm.all_reduce(&large, 1, ElementType::kInt64, ReduceOp::kSum);
    }
    const auto n = static_cast<std::uint64_t>(comm.size());
    const auto max = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    findings.expect(small == static_cast<std::uint8_t>(n * 200), cat("uint8: ", int{small}));
    findings.expect(static_cast<std::uint64_t>(large) == n * max, cat("int64: ", large));
  }
}

void all_ranks_get_the_same_bits(Communicator& comm, Findings& findings) {
  for (const ElementType type : kFloatTypes) {
    for (const bool ordered : {false, true}) {
      for (const std::size_t count : {1UL, 5UL, 10007UL}) {
        Elements data(type, count);
        data.fill_randomly(count, comm.rank());
        sum_over_ranks(comm, data, type, ordered);
        Hasher hasher;
        hasher.update(data.data(), data.bits().size());
        const auto hash = static_cast<std::int64_t>(hasher.digest() >> 2);
        const bool same = comm.all_reduce_max(hash) == hash && comm.all_reduce_max(-hash) == -hash;
        findings.expect(same,
                        cat(count, " ", element_name(type), ordered ? ", ordered" : ", ring"));
      }
    }
  }
}

void ordered_sum_is_serial_for_any_cut(Communicator& comm, Findings& findings) {
  constexpr std::uint64_t kSeed = 20261121;
  const RandomStream cuts{kSeed, RandomUse::kTest, 99};
  std::uint64_t next = 0;
  for (const ElementType type : kFloatTypes) {
    for (int trial = 0; trial < 6; ++trial) {
      const std::size_t count = 1 + cuts.below(next++, trial == 0 ? 5 : 3000);
      std::vector<Elements> inputs;
      for (int rank = 0; rank < comm.size(); ++rank) {
        inputs.emplace_back(type, count);
        inputs.back().fill_randomly(kSeed + next, rank);
      }
      Elements mine = inputs[static_cast<std::size_t>(comm.rank())];
      // Trial 1 in one call, the others in pieces of random lengths.
      for (std::size_t done = 0; done < count;) {
        const std::size_t piece =
            trial == 1 ? count : std::min(count - done, 1 + cuts.below(next++, count));
        comm.all_reduce_ordered(mine.at(done), piece, type);
        done += piece;
      }
      findings.expect(mine.bits() == serial_sum(inputs, type).bits(),
                      cat(count, " ", element_name(type), ", seed ", kSeed, ", trial ", trial));
    }
  }
}

// Each of at most n-1 additions rounds to p bits: |error| <= (n-1)·2^-p·Σ|x|, and as much again as
// f32 adds.
void wire_types_round_to_nearest(Communicator& comm, Findings& findings) {
  constexpr std::size_t kCount = 4001;
  for (const ElementType type : {ElementType::kFloat16, ElementType::kBFloat16}) {
    const double unit = type == ElementType::kFloat16 ? 0x1p-11 : 0x1p-8;
    std::vector<Elements> inputs;
    for (int rank = 0; rank < comm.size(); ++rank) {
      inputs.emplace_back(type, kCount);
      inputs.back().fill_randomly(17, rank);
    }
    Elements mine = inputs[static_cast<std::size_t>(comm.rank())];
    comm.all_reduce(mine.data(), kCount, type, ReduceOp::kSum);
    bool good = true;
    for (std::size_t i = 0; i < kCount; ++i) {
      double exact = 0, magnitude = 0;
      for (const auto& input : inputs) {
        exact += input.get(i);
        magnitude += std::abs(input.get(i));
      }
      good &= std::abs(mine.get(i) - exact) <= (comm.size() - 1) * unit * magnitude * 1.01;
    }
    findings.expect(good, element_name(type));
  }
}

void not_finite_values_spread(Communicator& comm, Findings& findings) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const int last = comm.size() - 1;
  for (const ElementType type : kFloatTypes) {
    for (const bool ordered : {false, true}) {
      Elements data(type, 4);
      data.set(0, comm.rank() == last ? infinity : 1);
      data.set(1, comm.rank() == 0 ? -infinity : 1);
      data.set(2, comm.rank() == last ? nan : 1);
      data.set(3, -0.0);
      sum_over_ranks(comm, data, type, ordered);
      const bool good = data.get(0) == infinity && data.get(1) == -infinity &&
                        std::isnan(data.get(2)) && data.get(3) == 0 && std::signbit(data.get(3));
      findings.expect(good, cat(element_name(type), ordered ? ", ordered" : ", ring"));
    }
  }
}

void broadcast_copies_from_every_root(Communicator& comm, Findings& findings) {
  for (int root = 0; root < comm.size(); ++root) {
    for (const ElementType type : kAllTypes) {
      for (const std::size_t count : kCounts) {
        Elements data(type, count), want(type, count);
        for (std::size_t i = 0; i < count; ++i) {
          data.set(i, static_cast<double>((i + static_cast<std::size_t>(comm.rank())) % 100));
          want.set(i, static_cast<double>((i + static_cast<std::size_t>(root)) % 100));
        }
        comm.broadcast(data.data(), count, type, root);
        findings.expect(data.bits() == want.bits(),
                        cat(count, " ", element_name(type), " from ", root));
      }
    }
    const std::string text("with a zero \0 inside", 20);
    const bool mine = comm.rank() == root;
    findings.expect(comm.broadcast(mine ? text : "other", root) == text, "text");
    findings.expect(comm.broadcast(mine ? "" : "other", root).empty(), "empty text");
  }
}

void gather_keeps_order_and_lengths(Communicator& comm, Findings& findings) {
  const auto text_of = [](int rank, std::size_t factor) {
    return std::string(static_cast<std::size_t>(rank) * factor, static_cast<char>('a' + rank));
  };
  for (int root = 0; root < comm.size(); ++root) {
    for (const std::size_t factor : {0UL, 1UL, 70001UL}) {
      const auto all = comm.gather(text_of(comm.rank(), factor), root);
      bool good = all.size() == (comm.rank() == root ? static_cast<std::size_t>(comm.size()) : 0);
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        good &= all[rank] == text_of(static_cast<int>(rank), factor);
      }
      findings.expect(good, cat("factor ", factor, " to ", root));
    }
  }
}

// Ranks on one machine share its monotonic clock: nobody is out before the last one is in.
void barrier_holds_everyone_back(Communicator& comm, Findings& findings) {
  const auto now = [] { return std::chrono::steady_clock::now().time_since_epoch().count(); };
  for (int slow = 0; slow < comm.size(); ++slow) {
    if (comm.rank() == slow) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    const std::int64_t in = now();
    comm.barrier();
    const std::int64_t out = now();
    findings.expect(comm.all_reduce_max(in) <= -comm.all_reduce_max(-out), cat("slow ", slow));
  }
}

void wrong_arguments_are_refused(Communicator& comm, Findings& findings) {
  const auto refused = [&](const char* what, const std::function<void()>& call) {
    try {
      call();
      findings.expect(false, cat(what, " passed"));
    } catch (const Error& error) {
      findings.expect(error.kind() == ErrorKind::kInternal, cat(what, ": ", error.what()));
    }
  };
  float value = 1;
  const auto type = ElementType::kFloat32;
  for (const int root : {-1, comm.size()}) {
    refused("root of broadcast", [&] { comm.broadcast(&value, 1, type, root); });
    refused("root of gather", [&] { comm.gather("x", root); });
  }
  refused("null", [&] { comm.all_reduce(nullptr, 1, type, ReduceOp::kSum); });
  refused("null, ordered", [&] { comm.all_reduce_ordered(nullptr, 1, type); });
  refused("null of broadcast", [&] { comm.broadcast(nullptr, 1, type, 0); });
  // Nothing was sent: the next collective is in step.
  comm.all_reduce(nullptr, 0, type, ReduceOp::kSum);
  findings.expect(comm.all_reduce_sum(1) == comm.size(), "out of step");
}

void stats_count_calls_and_bytes(Communicator& comm, Findings& findings) {
  const CommStats before = comm.stats();
  std::vector<float> data(100);
  comm.all_reduce(data.data(), 100, ElementType::kFloat32, ReduceOp::kSum);
  comm.all_reduce(data.data(), 50, ElementType::kBFloat16, ReduceOp::kMax);
  comm.all_reduce_ordered(data.data(), 25, ElementType::kFloat64);
  comm.broadcast(data.data(), 7, ElementType::kUint8, 0);
  comm.gather("four", 0);
  comm.barrier();
  const CommStats& after = comm.stats();
  const auto grew = [&](OperationStats CommStats::*part, std::int64_t calls, std::int64_t bytes) {
    return (after.*part).calls == (before.*part).calls + calls &&
           (after.*part).bytes == (before.*part).bytes + bytes &&
           (after.*part).seconds >= (before.*part).seconds;
  };
  findings.expect(grew(&CommStats::all_reduce, 2, 500), "all_reduce");
  findings.expect(grew(&CommStats::all_reduce_ordered, 1, 200), "all_reduce_ordered");
  findings.expect(grew(&CommStats::broadcast, 1, 7), "broadcast");
  findings.expect(grew(&CommStats::gather, 1, 4), "gather");
  findings.expect(grew(&CommStats::barrier, 1, 0), "barrier");
}

void ranks_have_their_places(Communicator& comm, Findings& findings) {
  findings.expect(comm.rank() >= 0 && comm.rank() < comm.size(), "rank");
  findings.expect(comm.local_rank() >= 0 && comm.local_rank() < comm.local_size(), "local rank");
  findings.expect(comm.local_size() <= comm.size(), "local size");
  findings.expect(comm.is_root() == (comm.rank() == 0), "root");
  findings.expect(comm.all_reduce_sum(comm.rank()) == comm.size() * (comm.size() - 1) / 2, "sum");
  findings.expect(comm.all_reduce_max(comm.rank()) == comm.size() - 1, "max");
}

}  // namespace

const std::vector<ConformanceRule>& conformance_rules() {
  static const std::vector<ConformanceRule> rules = {
      {"RanksHaveTheirPlaces", ranks_have_their_places},
      {"AllReduceSumsExactly", all_reduce_sums_exactly},
      {"AllReduceOrderedSumsExactly", all_reduce_ordered_sums_exactly},
      {"AllReduceTakesTheMaximum", all_reduce_takes_the_maximum},
      {"LargeBuffersSumExactly", large_buffers_sum_exactly},
      {"IntegerSumsWrap", integer_sums_wrap},
      {"AllRanksGetTheSameBits", all_ranks_get_the_same_bits},
      {"OrderedSumIsSerialForAnyCut", ordered_sum_is_serial_for_any_cut},
      {"WireTypesRoundToNearest", wire_types_round_to_nearest},
      {"NotFiniteValuesSpread", not_finite_values_spread},
      {"BroadcastCopiesFromEveryRoot", broadcast_copies_from_every_root},
      {"GatherKeepsOrderAndLengths", gather_keeps_order_and_lengths},
      {"BarrierHoldsEveryoneBack", barrier_holds_everyone_back},
      {"WrongArgumentsAreRefused", wrong_arguments_are_refused},
      {"StatsCountCallsAndBytes", stats_count_calls_and_bytes},
  };
  return rules;
}

}  // namespace retina
