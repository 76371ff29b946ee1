#include "train/step/replica_check.h"

#include <algorithm>
#include <bit>
#include <map>

#include "shared/base/error.h"

namespace retina {
namespace {

std::string ranks_text(const std::vector<int>& ranks) {
  return cat(ranks.size() == 1 ? "rank " : "ranks ", rank_ranges(ranks));
}

}  // namespace

std::string drift_text(const std::vector<std::uint64_t>& hash_of_rank) {
  std::map<std::uint64_t, std::vector<int>> by_hash;
  for (std::size_t rank = 0; rank < hash_of_rank.size(); ++rank) {
    by_hash[hash_of_rank[rank]].push_back(static_cast<int>(rank));
  }
  if (by_hash.size() <= 1) return "";
  const auto& [hash, most] = *std::max_element(
      by_hash.begin(), by_hash.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  std::vector<int> others;
  for (std::size_t rank = 0; rank < hash_of_rank.size(); ++rank) {
    if (hash_of_rank[rank] != hash) others.push_back(static_cast<int>(rank));
  }
  return cat(ranks_text(others), others.size() == 1 ? " holds" : " hold",
             " different weights from ", ranks_text(most));
}

void check_replicas(Communicator& communicator, std::uint64_t hash, std::int64_t step) {
  if (communicator.size() == 1) return;
  // All hashes only if they differ: a thousand ranks would each receive a thousand.
  const auto own = std::bit_cast<std::int64_t>(hash);
  std::int64_t most_and_least[] = {own, ~own};
  communicator.label("replica check");
  communicator.all_reduce(most_and_least, 2, ElementType::kInt64, ReduceOp::kMax);
  if (most_and_least[0] == ~most_and_least[1]) return;
  std::vector<std::int64_t> hashes(static_cast<std::size_t>(communicator.size()), 0);
  hashes[static_cast<std::size_t>(communicator.rank())] = own;
  communicator.label("replica check, all ranks");
  communicator.all_reduce(hashes.data(), hashes.size(), ElementType::kInt64, ReduceOp::kSum);
  std::vector<std::uint64_t> hash_of_rank;
  for (const std::int64_t value : hashes) {
    hash_of_rank.push_back(std::bit_cast<std::uint64_t>(value));
  }
  if (!communicator.is_root()) communicator.barrier();
  throw Error(ErrorKind::kRankFailure,
              cat("step ", step, ": the replicas have drifted: ", drift_text(hash_of_rank)),
              "run the same command again to continue from the last checkpoint; if the same rank "
              "drifts again, check its machine");
}

void ReplicaChecks::after_step(std::int64_t step, Replica& replica, Communicator& communicator) {
  if (period_ > 0 && step % period_ == 0) before_save(step, replica, communicator);
}

void ReplicaChecks::before_save(std::int64_t step, Replica& replica, Communicator& communicator) {
  if (period_ == 0 || communicator.size() == 1 || checked_step_ == step) return;
  checked_step_ = step;
  check_replicas(communicator, replica.hash(), step);
}

}  // namespace retina
